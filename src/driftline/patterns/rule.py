"""The nouns live in core."""

from driftline.core.rule import Reach, Rule

__all__ = ["Reach", "Rule"]
