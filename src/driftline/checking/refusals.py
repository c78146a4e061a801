"""Decides whether a compiler's rejection is believed. "Not supported" is no finding, but an optimiser that makes a node
without a kernel fails with the same words.

So the compiler's plainest form (`Backend.plainest`) is given the same program. If that runs it, the compiler supports
the program, and the rejection is a failure at the stage where it occurred. Backends that decline a program themselves
(`Unsupported`) are believed.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from driftline.backends import resolve
from driftline.backends.base import Unsupported
from driftline.core.case import Case
from driftline.core.execution import Failure
from driftline.core.target import Target
from driftline.core.text import normalise_message

ASKED = 5  # how often a hunt tests one message; later rejections with that message are believed


def plain_form(target: Target, failure: Failure | None) -> Target | None:
    """Return the target to try before a rejection is believed; None if the backend itself declined the program, or has
    no plainer form."""
    if failure is None or failure.type == Unsupported.__name__:
        return None
    backend = resolve(target)
    options = backend.plainest(dict(target.options))
    if options is None or all(_value(backend.options, target, key) == value for key, value in options.items()):
        return None
    return Target(target.backend, target.version, tuple(options.items()))


def _value(known: Mapping[str, object], target: Target, key: str) -> str:
    default = getattr(known.get(key), "default", "")
    return dict(target.options).get(key, str(default))


def rejection_key(reason: str) -> str:
    """Return the text of a rejection, without details that differ from program to program."""
    return normalise_message(reason)[:160]


def worth_asking(rejections: Iterable[tuple[int, str]], heard: Mapping[str, int] | None) -> Iterator[int]:
    """Yield the numbers of the rejected programs to test: all, or in a hunt (`heard` is given) only those whose message
    was met fewer than `ASKED` times."""
    said = Counter(heard or {})
    for number, reason in rejections:
        said[rejection_key(reason)] += 1
        if heard is None or said[rejection_key(reason)] <= ASKED:
            yield number


class Refusals:
    """Remembers which programs a plainest form accepts."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, ...], bool] = {}
        self._lock = threading.Lock()

    def takes(self, case: Case, plain: Target, ask: Callable[[], bool]) -> bool:
        """True if the plainest form accepts the program of a case; `ask` finds out, once for each program."""
        key = _key(case, plain)
        with self._lock:
            if key in self._taken:
                return self._taken[key]
        taken = ask()
        with self._lock:
            self._taken[key] = taken
        return taken


def _key(case: Case, plain: Target) -> tuple[str, ...]:
    inputs = hashlib.sha256()
    for sample in case.samples:
        for name, array in sample.arrays.items():
            inputs.update(f"{name} {array.dtype} {array.shape}".encode())
            inputs.update(array.tobytes())
    return case.program.digest, str(plain), inputs.hexdigest(), str(case.options.grad)
