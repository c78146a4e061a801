"""Turn a rule's pattern into a program that contains it: the pattern matcher, run backwards."""

from driftline.patterns.inductor.invert.builder import build
from driftline.patterns.inductor.invert.wish import NotBuilt

__all__ = ["NotBuilt", "build"]
