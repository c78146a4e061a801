"""A shadow that runs in the calling process: for batches in a worker, and for the user's own Python.

In `oracle/shadow/task.py`, by contrast, a worker runs the shadow and the parent asks it.
"""

from __future__ import annotations

import math
import time

from driftline.core.registry import import_string
from driftline.core.tensors import Arrays
from driftline.oracle.arithmetic import declared
from driftline.oracle.judge import NoShadow
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.rule import ShadowAnswer
from driftline.oracle.shadow.player import Player
from driftline.oracle.shadow.task import FRONT_ENDS
from driftline.programs.opened import OpenedProgram


class LocalShadow:
    """The shadow of one program on one sample, executed in this process."""

    def __init__(self, opened: OpenedProgram, arrays: Arrays, deadline: float = math.inf) -> None:
        """`deadline` is a value of `time.monotonic` after which the shadow gives no more answers."""
        self._opened, self._arrays, self._deadline = opened, arrays, deadline
        self._players: dict[str, Player] = {}
        self.late = False  # True if the last answer failed because of the deadline

    def exact(self) -> Arrays:
        """Return the float64 result."""
        return self._player("").reference()

    @property
    def draws(self) -> bool:
        """True if the program drew random numbers."""
        return any(player.draws for player in self._players.values())

    def ask(self, arithmetic: str, runs: int, outputs: Arrays | None) -> ShadowAnswer:
        """Return the shadow's answer under the declared arithmetic. Raises `NoShadow` if there is none."""
        try:
            return self._player(arithmetic).ask(runs, outputs)
        except NoExactReference as reason:
            self.late = time.monotonic() >= self._deadline
            raise NoShadow(str(reason)) from reason

    def _player(self, arithmetic: str) -> Player:
        if arithmetic not in self._players:
            open_shadow = import_string(FRONT_ENDS[self._opened.framework])
            shadow = open_shadow(self._opened, self._arrays, declared(arithmetic))
            self._players[arithmetic] = Player(shadow, self._deadline)
        return self._players[arithmetic]
