"""Ask a shadow and cache its runs: a second request executes only the samples that are missing."""

from __future__ import annotations

import math
import time
from typing import Any, Protocol

import numpy as np

from driftline.core.tensors import Arrays
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.rule import QUICK_RUNS, ShadowAnswer
from driftline.oracle.shadow.open_runs import OpenRuns


class Shadow(Protocol):
    """The interface of a shadow, implemented by each front end; see `TorchShadow`."""

    @property
    def draws(self) -> bool:
        """True if the program draws random numbers. Known after a reference run, whether that succeeds or not."""

    @property
    def unruled(self) -> set[str]: ...
    @property
    def roundings(self) -> int:
        """The number of rounded results in the whole graph."""

    @property
    def terms(self) -> int:
        """The largest number of terms in one result."""

    @property
    def uses(self) -> set[str]:
        """The float types of the program, and `exponential`, `quantised` or `subnormal` if such operations or values
        occur."""

    def reference(self) -> Arrays: ...
    def sample(self, number: int) -> Arrays: ...
    def is_deciding(self) -> bool: ...
    def pushed(self) -> list[Arrays]: ...
    def alternatives(self) -> OpenRuns: ...
    def force(self, outputs: Arrays) -> dict[str, str]: ...
    def choice_outputs(self) -> set[str]: ...


class Player:
    """Asks the shadow of a program on one input sample, and caches its runs."""

    def __init__(self, shadow: Shadow, deadline: float = math.inf) -> None:
        """`deadline` is a value of `time.monotonic` after which no further run starts."""
        self._shadow = shadow
        self._deadline = deadline
        self._reference: Arrays | None = None
        self._samples: list[Arrays] = []
        self._band: tuple[int, Arrays, Arrays] | None = None  # number of samples used, lowest and highest values
        self._alternatives: tuple[int, OpenRuns] | None = None  # number of samples used, and the runs

    @property
    def draws(self) -> bool:
        return self._shadow.draws

    def reference(self) -> Arrays:
        """Return the outputs of the reference run, which is executed once."""
        if self._reference is None:
            self._reference = self._shadow.reference()
        return self._reference

    def ask(self, runs: int, outputs: Arrays | None = None) -> ShadowAnswer:
        """Return the reference, `runs` samples and the band of legal steps and choices.

        With the outputs of a compiler, the valid choices among them are adopted first. If rounding can decide
        something, at least `QUICK_RUNS` samples are made, because a few do not show how far a step may be pushed.
        """
        shadow = self._shadow
        self._sample(runs)
        if runs < QUICK_RUNS and shadow.is_deciding():
            self._sample(QUICK_RUNS)
        problems: dict[str, str] = {}
        if outputs:
            problems = shadow.force(outputs)
            if any(not problem for problem in problems.values()):
                self._reference, self._samples, self._band, self._alternatives = None, [], None, None
                self._sample(runs)
        reference = self.reference()
        low, high = self._legal_steps()
        if self._alternatives is None or self._alternatives[0] != len(self._samples):
            self._alternatives = len(self._samples), shadow.alternatives()
        left_open = self._alternatives[1]
        free = {n: _changed(value, [a[n] for a in left_open.free if n in a]) for n, value in reference.items()}
        bound = {
            n: _changed(value, [a[n] for a in left_open.bound if n in a]) & ~free[n] for n, value in reference.items()
        }
        return ShadowAnswer(
            reference=reference,
            samples={n: np.stack([_fitting(s[n], value) for s in self._samples]) for n, value in reference.items()},
            low=low,
            high=high,
            choices=problems,
            choosing=tuple(sorted(shadow.choice_outputs())),
            open={n: free[n] | bound[n] for n in reference},
            readings={
                n: np.stack([run[n] for run in left_open.readings if run[n].shape == mask.shape] or [reference[n]])
                for n, mask in bound.items()
                if mask.any()
            },
            bound={n: mask for n, mask in bound.items() if mask.any()},
            clauses=tuple(sorted(left_open.clauses)),
            unruled=tuple(sorted(shadow.unruled)),
            uses=tuple(sorted(shadow.uses)),
            worst_case=worst_case(shadow.roundings, shadow.terms),
        )

    def _legal_steps(self) -> tuple[Arrays, Arrays]:
        """Return the lowest and the highest value of each element when decisions are pushed as far as the samples
        allow."""
        if self._band is None or self._band[0] != len(self._samples):
            reference = self.reference()
            low, high = dict(reference), dict(reference)
            for other in self._shadow.pushed():
                for name, values in other.items():
                    if values.shape == reference[name].shape:
                        low[name], high[name] = np.minimum(low[name], values), np.maximum(high[name], values)
            self._band = len(self._samples), low, high
        return self._band[1], self._band[2]

    def _sample(self, runs: int) -> None:
        self.reference()  # measures the error sizes
        for number in range(len(self._samples), runs):
            if time.monotonic() >= self._deadline:
                raise NoExactReference("it takes too long: one run of the program in float64 after the other")
            self._samples.append(self._shadow.sample(number))


def worst_case(roundings: int, terms: int) -> float:
    """Return how many sigma a result could move if every error in the graph were as large as possible and had the same
    sign: by the inequality of Cauchy and Schwarz, the root of their number."""
    return float((3.0 * max(roundings, 1) * max(terms, 1)) ** 0.5)


def _changed(value: Any, others: list[Any]) -> Any:
    """Return a mask of the elements that differ in any of the other runs."""
    changed = np.zeros(value.shape, dtype=bool)
    for other in others:
        if other.shape != value.shape:
            return np.ones(value.shape, dtype=bool)
        both_nan = (value != value) & (other != other)
        changed |= (value != other) & ~both_nan
    return changed


def _fitting(values: Any, like: Any) -> Any:
    """Return the sample, or NaNs if its shape differs: a shape that depends on a step (nonzero, masked_select) cannot
    be compared elementwise."""
    return values if values.shape == like.shape else np.full(like.shape, np.nan)
