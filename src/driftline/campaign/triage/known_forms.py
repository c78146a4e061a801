"""In which forms a bug was met: the names of parts for which a program with other operators stood in the end.

A part that goes by another name (a `var` whose sum is wrong, a `gemm` before a `tanh` that goes by `relu`) is not
recognised by the operators of its bug. Suspects that nobody has time for are held against these names too
(`campaign/triage/matching.py`). They are those of one run: a hunt that is resumed learns them anew.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass

LARGEST = 2  # operators of a part that is held against what is known


@dataclass(frozen=True)
class KnownForm:
    """Parts of one name, the operators that they have in a graph of ours, and the bugs that they turned out to be."""

    backend: str
    operators: frozenset[str]
    bugs: frozenset[str]


class KnownForms:
    """Several threads examine suspects, and note what came of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forms: dict[str, KnownForm] = {}  # by the name that a bug of such a part would have

    def note(self, name: str, backend: str, operators: Collection[str], bugs: Collection[str]) -> None:
        if not 0 < len(operators) <= LARGEST:
            return
        with self._lock:
            known = self._forms.get(name)
            joined = frozenset(bugs) | (known.bugs if known else frozenset())
            self._forms[name] = KnownForm(backend, frozenset(operators), joined)

    def bug(self, name: str) -> str | None:
        """What parts of this name are, if it was the same each time."""
        with self._lock:
            known = self._forms.get(name)
        return next(iter(known.bugs)) if known and len(known.bugs) == 1 else None

    def operators(self, backend: str) -> set[frozenset[str]]:
        with self._lock:
            return {form.operators for form in self._forms.values() if form.backend == backend}
