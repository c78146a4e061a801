"""Parse and check the thresholds of `--fail-under 60`, `operator=80`, `onnxruntime:pass=30`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean
from driftline.coverage.levels import LEVELS, Coverage, Level


@dataclass(frozen=True)
class Threshold:
    """The required percentage of a level, for one compiler or for each."""

    percent: float
    level: str = ""  # empty: every level
    compiler: str = ""  # empty: every compiler

    def __str__(self) -> str:
        words = f"{self.compiler}:{self.level}" if self.compiler else self.level
        return f"{words}={self.percent:g}" if words else f"{self.percent:g}"


@dataclass(frozen=True)
class Below:
    """A level whose coverage is below its threshold."""

    compiler: str
    level: Level
    asked: float

    def __str__(self) -> str:
        shown = f"{self.level.percent or 0.0:.1f}"
        return f"{self.compiler}: {self.level.name} is covered to {shown} %, and {self.asked:g} % were asked for."


def parse_thresholds(texts: Iterable[str]) -> list[Threshold]:
    """Parse the values of `--fail-under`, which may be comma-separated."""
    return [_parsed(part.strip()) for text in texts for part in text.split(",")]


def _parsed(text: str) -> Threshold:
    where, equals, amount = text.rpartition("=")
    compiler, _, level = where.rpartition(":")
    if equals and level not in LEVELS:
        raise DriftlineError(
            f"--fail-under {text}: there is no level {level!r}.{did_you_mean(level, LEVELS)}"
            f" Levels are {', '.join(LEVELS)}."
        )
    try:
        percent = float(amount)
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise DriftlineError(
            f"--fail-under {text}: write a percentage from 0 to 100, as in 60, operator=80 or onnxruntime:pass=30."
        )
    return Threshold(percent, level, compiler)


def too_little(coverage: Coverage, thresholds: Sequence[Threshold]) -> list[Below]:
    """Return the levels below a threshold. Levels that cannot be listed are skipped, or raise if the threshold names
    their compiler.
    """
    return [low for threshold in thresholds for low in _below(coverage, threshold)]


def _below(coverage: Coverage, threshold: Threshold) -> Iterator[Below]:
    chosen = [one for one in coverage.compilers if threshold.compiler in ("", one.name)]
    if not chosen:
        names = [one.name for one in coverage.compilers]
        raise DriftlineError(
            f"--fail-under {threshold}: {coverage.store} has nothing of a compiler"
            f" {threshold.compiler!r}.{did_you_mean(threshold.compiler, names)} It has {', '.join(names)}."
        )
    for one in chosen:
        for level in one.levels:
            if threshold.level not in ("", level.name):
                continue
            if level.percent is None and threshold.compiler:
                raise DriftlineError(f"--fail-under {threshold}: {level.note or 'there is nothing to count.'}")
            if level.percent is not None and level.percent < threshold.percent:
                yield Below(one.name, level, threshold.percent)
