"""What of a compiler was exercised by a store, level by level of the test pyramid, and what is missing."""

from driftline.coverage.gather import coverage_of
from driftline.coverage.levels import LEVELS, CompilerCoverage, Coverage, Level

__all__ = ["LEVELS", "CompilerCoverage", "Coverage", "Level", "coverage_of"]
