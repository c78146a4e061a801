"""Files of our own are the user's alone, and a link in their place is never followed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from driftline.campaign.hunt.plan import locked
from driftline.core.answers import keep
from driftline.core.errors import DriftlineError
from driftline.core.files import copy_file
from driftline.core.private import open_private, private_folder, write_private
from driftline.execute.workspace import Workspace
from driftline.store import Store
from driftline.store.hunts import Hunt


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_lock_that_is_a_link_empties_nothing(tmp_path: Path, victim: Path, link: object) -> None:
    with Store.create(tmp_path / "s") as store:
        link(victim, tmp_path / "s" / "hunt-1.lock")  # type: ignore[operator]
        with pytest.raises(DriftlineError, match="link"), locked(store, Hunt(1, {}, {}, "", "", 0.0)):
            pass
    assert victim.read_text() == "precious"


def test_a_file_in_place_of_a_link_replaces_the_link(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "to").symlink_to(victim)
    write_private(tmp_path / "to", [b"mine"], lasting=True)
    assert victim.read_text() == "precious" and (tmp_path / "to").read_text() == "mine"
    (tmp_path / "to").unlink()
    (tmp_path / "to").symlink_to(victim)
    copy_file(tmp_path / "victim", tmp_path / "to")
    assert not (tmp_path / "to").is_symlink()


def test_a_pipe_is_no_lock(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(DriftlineError):
        open_private(tmp_path / "lock")


@pytest.mark.parametrize("name", ["store.db", "store.db-wal", "store.db-shm"])
def test_a_database_that_is_a_link_is_refused(tmp_path: Path, victim: Path, name: str) -> None:
    Store.create(tmp_path / "s").close()
    (tmp_path / "s" / name).unlink(missing_ok=True)
    (tmp_path / "s" / name).symlink_to(victim)
    with pytest.raises(DriftlineError, match="is a symbolic link"):
        Store.create(tmp_path / "s")
    assert victim.read_text() == "precious"


def test_objects_are_not_written_through_a_link(tmp_path: Path, victim: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with Store.create(tmp_path / "s") as store:
        place = store.object_path(store.put_file(victim))
        place.unlink()
        place.parent.rmdir()
        place.parent.symlink_to(elsewhere)
        with pytest.raises(DriftlineError, match="is a symbolic link"):
            store.put_file(victim)
    assert not list(elsewhere.iterdir())


def test_everything_in_a_store_and_in_the_cache_is_the_users_alone(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIFTLINE_CACHE", str(tmp_path / "cache"))
    before = os.umask(0)
    try:
        (tmp_path / "s").mkdir(mode=0o777)  # made by somebody who did not think of it
        with Store.create(tmp_path / "s") as store:
            store.put_file(victim)
            with store.transaction() as database:
                database.execute("INSERT INTO answers VALUES ('a', '{}')")
            with locked(store, Hunt(1, {}, {}, "", "", 0.0)):
                pass
            modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "s").rglob("*")}
            assert {path.name for path in modes} >= {"store.db", "store.db-wal", "store.db-shm", "hunt-1.lock"}
        workspace = Workspace()
        keep("test", "key", 1)
        modes |= {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache" / "scratch").rglob("*")}
        modes |= {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache" / "answers").rglob("*")}
        workspace.close()
    finally:
        os.umask(before)
    assert not {str(path): oct(mode) for path, mode in modes.items() if mode & 0o077}
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_not_taken(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o777)
    theirs.chmod(0o777)
    os.chown(theirs, 1, 1)
    for place in (tmp_path, *tmp_path.parents):  # up to where everybody may go anyway
        if place.stat().st_mode & 0o001:
            break
        place.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(PermissionError, match="belongs to another user"):
            private_folder(theirs)
    finally:
        os.seteuid(0)
