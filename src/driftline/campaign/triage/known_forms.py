"""The names under which a bug was met: names of parts that turned out to be a bug with other operators.

Such a part (a `var` whose sum is wrong, a `gemm` before a `tanh` that is reported as `relu`) is not recognised by the
operators of its bug. Suspects that there is no time to examine are matched against these names too
(`campaign/triage/matching.py`). The names hold for one run: a resumed hunt learns them anew.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass

LARGEST = 2  # operators of the largest part that is matched


@dataclass(frozen=True)
class KnownForm:
    """The parts of one name: their operators in a generated graph, and the bugs that they turned out to be."""

    backend: str
    operators: frozenset[str]
    bugs: frozenset[str]


class KnownForms:
    """The names under which bugs were met, noted by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forms: dict[str, KnownForm] = {}  # by the id that a bug of such a part would have

    def note(self, name: str, backend: str, operators: Collection[str], bugs: Collection[str]) -> None:
        """Note which bugs a part of this name turned out to be."""
        if not 0 < len(operators) <= LARGEST:
            return
        with self._lock:
            known = self._forms.get(name)
            joined = frozenset(bugs) | (known.bugs if known else frozenset())
            self._forms[name] = KnownForm(backend, frozenset(operators), joined)

    def bug(self, name: str) -> str | None:
        """Return the bug that parts of this name are, if it was the same each time, else None."""
        with self._lock:
            known = self._forms.get(name)
        return next(iter(known.bugs)) if known and len(known.bugs) == 1 else None

    def operators(self, backend: str) -> set[frozenset[str]]:
        with self._lock:
            return {form.operators for form in self._forms.values() if form.backend == backend}
