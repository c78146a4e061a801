"""What each generator of a lane can be asked for, of which some takes a framework, and seconds, to list.

That of generators with a slow start is asked of a worker when a turn needs it: by then the first programs are judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


class LaneArms(Mapping[str, Sequence[str]]):
    """Arms by generator. One whose arms are not listed yet is there; it may turn out to have none."""

    def __init__(
        self,
        names: Sequence[str],
        known: Mapping[str, Sequence[str]],
        ask: Callable[[], Mapping[str, Sequence[str]]],
    ) -> None:
        """`names`: the generators in their order. `ask`: those that are not `known`; it may take long, and is called
        from any thread."""
        self._names = tuple(names)
        self._known = known
        self._ask = ask
        self.complete = False

    def list_all(self) -> None:
        """Ask for what is not known."""
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
        return self  # a lane and its copy in a pipeline ask once
