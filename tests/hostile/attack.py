"""An attack on Driftline, shown twice: it succeeds while the guard against it is removed, and fails with the guard.

    ATTACKS = [Attack("key-to-a-stranger", run=run, weaken=weaken), ...]
    test_attack_fails = both_ways(ATTACKS)

The first half shows that the attack is one: without it, a test of a guard may pass because the attack never worked.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Attack:
    """What a stranger tries.

    `run` plays the attack in an empty folder and returns what the attack achieved in words, or an empty string.
    `weaken` removes the guard that stops the attack.
    """

    name: str
    run: Callable[[Path], str]
    weaken: Callable[[pytest.MonkeyPatch], None]


def both_ways(attacks: Sequence[Attack]) -> Callable[..., None]:
    """The test that plays each attack without its guard, and then with the guard."""

    @pytest.mark.parametrize("attack", attacks, ids=lambda attack: attack.name)
    def test_attack_fails(attack: Attack, tmp_path: Path) -> None:
        for folder in ("weak", "guarded"):
            (tmp_path / folder).mkdir()
        with pytest.MonkeyPatch.context() as weak:
            attack.weaken(weak)
            achieved = attack.run(tmp_path / "weak")
        assert achieved, "the attack fails even without the guard, so that this test shows nothing"
        assert not attack.run(tmp_path / "guarded")

    return test_attack_fails


def replacing(where: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    """Weakens Driftline by replacing one name, as in `driftline.core.quoting.one_line`."""
    return lambda weak: weak.setattr(where, value)


@contextlib.contextmanager
def small_stack() -> Iterator[None]:
    """Leaves Python so little room for functions that call themselves that `DEEP` levels are too many."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(sum(1 for _ in traceback.walk_stack(None)) + DEEP - 50)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


DEEP = 200  # folders inside of each other; making and removing thousands takes some systems long
