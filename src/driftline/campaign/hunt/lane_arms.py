"""The arms that each generator of a lane offers. Listing them may need a framework and take seconds.

The arms of generators that are slow to start are listed by a worker when a turn first needs them: by then the first
programs are judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


class LaneArms(Mapping[str, Sequence[str]]):
    """Arms by generator, listed when first needed. A generator whose arms are not listed yet is present, but may turn
    out to have none."""

    def __init__(
        self,
        names: Sequence[str],
        known: Mapping[str, Sequence[str]],
        ask: Callable[[], Mapping[str, Sequence[str]]],
    ) -> None:
        """`names`: the generators in order. `known`: the arms listed already. `ask` lists the others; it may take long
        and is called from any thread."""
        self._names = tuple(names)
        self._known = known
        self._ask = ask
        self.complete = False

    def list_all(self) -> None:
        """List the arms that are not known yet."""
        if not self.complete:
            self._known = {**self._known, **self._ask()}
            self.complete = True

    def __getitem__(self, name: str) -> Sequence[str]:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._known:
            self.list_all()
        return self._known.get(name, ())

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __deepcopy__(self, memo: Any) -> LaneArms:
        return self  # a lane and its copy in a pipeline share the list
