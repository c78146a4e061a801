"""Report which parts of a compiler a store exercised, level by level of the test pyramid, and which are missing."""

from driftline.coverage.gather import coverage_of
from driftline.coverage.levels import LEVELS, CompilerCoverage, Coverage, Level

__all__ = ["LEVELS", "CompilerCoverage", "Coverage", "Level", "coverage_of"]
