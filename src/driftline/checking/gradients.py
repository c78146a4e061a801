"""Checks gradients of programs that ask for them: after the outputs, on the targets that compute gradients."""

from __future__ import annotations

import threading
from dataclasses import replace

from driftline.backends import BACKENDS
from driftline.checking.aspects import Aspect
from driftline.checking.repeated import MOST_WEIGHTS, Judges, RepeatedCalls, SeenIn, is_known
from driftline.core.case import Case
from driftline.core.target import Target
from driftline.oracle.judge import Reference


class GradientCase:
    """The case of a check with gradients, shared by all targets. Its reference is computed when the first target needs
    it."""

    def __init__(self, checker: Judges, case: Case, calls: int) -> None:
        self._checker = checker
        self._case = replace(case, options=replace(case.options, grad=True))
        self._calls = min(calls, 2)
        self._lock = threading.Lock()
        self._tried = case.options.grad or case.deployed is not None or case.program.weights > MOST_WEIGHTS
        self._found: tuple[SeenIn, RepeatedCalls] | None = None

    def of(self, target: Target) -> tuple[SeenIn, RepeatedCalls] | None:
        """Return the case and its further calls, or None. It is None if the target computes no gradients, the
        unoptimised run raises, or no output depends on a leaf."""
        if not BACKENDS.get(target.backend).gradients:
            return None
        with self._lock:
            if not self._tried:
                self._tried = True
                reference = self._checker.reference(self._case)
                if is_known(reference) and _has_gradients(reference):
                    repeats = RepeatedCalls(self._checker, self._case, reference, self._calls)
                    self._found = SeenIn(self._case, reference, "with gradients", Aspect.GRADIENT), repeats
            return self._found


def _has_gradients(reference: Reference) -> bool:
    return all(any(name.startswith("grad:") for name in sample.native) for sample in reference.samples)
