"""A hunt that ends early prints a summary all the same, and the sentence that says why it ended."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from driftline.campaign.hunt.hunter import Hunter
from driftline.campaign.hunt.lane_opener import LaneOpener
from driftline.cli.early_end import own_hunt
from driftline.core.errors import DriftlineError
from driftline.execute.pool import PoolExpired
from driftline.store import Store
from driftline.store.hunts import HuntLog
from typed import typed

NOTHING = re.compile(r"^0 programs on (\d) compilers? in \d+ s\.", re.MULTILINE)


def hunted(folder: Path, *more: str) -> tuple[int, str, str]:
    ended = typed("hunt", "--targets", "onnxruntime", "--budget", "30s", "--store", str(folder / "store"), *more)
    return ended.returncode, ended.stdout, ended.stderr


def raising(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


@pytest.mark.parametrize(
    ("place", "error", "code", "compilers", "sentence"),
    [
        ((LaneOpener, "open"), PoolExpired("over"), 5, "1", "ended while the frameworks were being imported"),
        ((LaneOpener, "open"), KeyboardInterrupt(), 130, "1", "Go on with: driftline hunt --resume 1"),
        ((Hunter, "run"), KeyboardInterrupt(), 130, "0", "interrupted"),
        ((Hunter, "run"), OSError(errno.ENOSPC, "No space left on device"), 2, "0", "is full; make room"),
        ((Hunter, "_announce"), OSError(errno.ENOSPC, "No space left on device"), 2, "1", "is full; make room"),
    ],
)
def test_hunt_that_ends_before_its_first_program_is_summed_up(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: tuple[type, str],
    error: BaseException,
    code: int,
    compilers: str,
    sentence: str,
) -> None:
    monkeypatch.setattr(*place, raising(error))
    ended, out, err = hunted(tmp_path)
    found = NOTHING.search(out)
    assert ended == code and found and found[1] == compilers
    assert sentence in err


def test_hunt_that_ended_while_frameworks_were_imported_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LaneOpener, "open", raising(KeyboardInterrupt()))
    hunted(tmp_path)
    with Store.open(tmp_path / "store") as store:
        assert [hunt.plan["targets"] for hunt in HuntLog(store).unfinished()] == [["onnxruntime"]]


def test_hunt_for_what_nobody_can_do_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LaneOpener, "open", raising(DriftlineError("no generator makes programs for it")))
    ended, out, _ = hunted(tmp_path)
    assert ended == 2 and not NOTHING.search(out)
    with Store.open(tmp_path / "store") as store:
        assert not HuntLog(store).hunts()


def test_hunt_whose_plugin_cannot_be_imported_says_that_nothing_was_compared(tmp_path: Path) -> None:
    plugin = tmp_path / "broken.py"
    plugin.write_text("import a_package_that_nobody_has")
    ended, out, err = hunted(tmp_path, "--plugin", str(plugin))
    assert ended == 2 and NOTHING.search(out) and "cannot be imported" in err


def test_summary_is_that_of_the_hunt_which_the_command_began(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        log = HuntLog(store)
        older = log.begin({"targets": ["eager"]}, {})
        assert own_hunt(log, {older.id}, resuming=False) is None
        assert own_hunt(log, {older.id}, resuming=True) == older
        begun = log.begin({"targets": ["tvm"]}, {})
        assert own_hunt(log, {older.id}, resuming=False) == begun
