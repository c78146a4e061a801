"""In which forms a bug was met: the names that parts had as they were cut, before a plainer program stood for them.

A part that goes by another name (a `var` whose sum is wrong, a `gemm` before a `tanh` that goes by `relu`) is not
recognised by the operators of its bug. Suspects that nobody has time for are held against these names too
(`campaign/matching.py`). They are those of one run: a hunt that is resumed learns them anew.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class KnownForm:
    """Parts of one name, the operators that they have in a graph of ours, and the bugs that they turned out to be."""

    backend: str
    operators: frozenset[str]
    bugs: frozenset[str]


class KnownForms:
    def __init__(self) -> None:
        self._forms: dict[str, KnownForm] = {}  # by the name that a bug of such a part would have

    def note(self, name: str, backend: str, operators: Collection[str], bugs: Collection[str]) -> None:
        known = self._forms.get(name)
        joined = frozenset(bugs) | (known.bugs if known else frozenset())
        self._forms[name] = KnownForm(backend, frozenset(operators), joined)

    def bug(self, name: str) -> str | None:
        """What parts of this name are, if it was the same each time."""
        known = self._forms.get(name)
        return next(iter(known.bugs)) if known and len(known.bugs) == 1 else None

    def operators(self, backend: str) -> set[frozenset[str]]:
        return {form.operators for form in list(self._forms.values()) if form.backend == backend}
