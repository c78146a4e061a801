"""Stores pushed to a folder and to an object store, and pulled back: incremental, whole or not at all, nothing lost."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_store import add, make_case

from driftline.cli import run
from driftline.core.errors import BackendUnavailable, DriftlineError, StoreError
from driftline.store import Store, remote
from driftline.store.remote import RemotePlace, pull, push
from driftline.store.schema import SCHEMA

pytest.importorskip("fsspec")


@pytest.fixture(params=["file", "memory"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    import fsspec

    if request.param == "file":
        yield f"file://{tmp_path}/far/away"
        return
    yield "memory://bucket/hunts"
    fsspec.filesystem("memory").rm("/bucket", recursive=True)


def made(folder: Path, name: str, *details: str) -> Path:
    with Store.create(folder / name) as store:
        for detail in details:
            add(store, make_case(folder, detail), detail=detail)
    return folder / name


def details(path: Path) -> set[str]:
    with Store.open(path) as store:
        for bug in store.bugs():
            for finding in store.bug(bug.id).findings:
                assert store.load_case(finding.case_id).samples
        return {bug.fingerprint.detail for bug in store.bugs()}


def test_what_is_pushed_can_be_pulled(tmp_path: Path, address: str) -> None:
    mine = made(tmp_path, "mine", "a", "b")
    assert push(mine, address).objects == 3  # two programs, and the tensors of both
    assert details_of_pull(address, tmp_path / "back") == {"a", "b"}


def details_of_pull(address: str, store: Path) -> set[str]:
    done = pull(address, store)
    assert not done.merged.damaged.count
    return details(store)


def test_only_what_is_missing_travels(tmp_path: Path, address: str) -> None:
    mine = made(tmp_path, "mine", "a")
    push(mine, address)
    pull(address, tmp_path / "back")
    made(tmp_path, "mine", "b")
    sent = push(mine, address)
    assert sent.objects == 1 and sent.merged.added["bugs"] == 1
    state = RemotePlace(address).state("store.db")
    again = push(mine, address)
    assert again.objects == 0 and not again.merged.added and RemotePlace(address).state("store.db") == state
    fetched = pull(address, tmp_path / "back")
    assert fetched.objects == 1 and fetched.merged.added["bugs"] == 1


def test_what_others_pushed_stays(tmp_path: Path, address: str) -> None:
    push(made(tmp_path, "one", "a"), address)
    push(made(tmp_path, "two", "b"), address)
    assert details_of_pull(address, made(tmp_path, "three", "c")) == {"a", "b", "c"}


def test_a_push_that_comes_between_is_merged_too(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one begins when the first is about to put its database in place, and waits for it."""
    one, two = made(tmp_path, "one", "a"), made(tmp_path, "two", "b")
    other = threading.Thread(target=push, args=(two, address))
    really = RemotePlace.write

    def interrupted(self: RemotePlace, name: str, source: Path) -> None:
        if name == "store.db" and not other.ident:
            other.start()
            other.join(0.5)  # it would end in this time, did it not wait
        really(self, name, source)

    monkeypatch.setattr(RemotePlace, "write", interrupted)
    push(one, address)
    other.join()
    assert details_of_pull(address, tmp_path / "back") == {"a", "b"}
    assert not [name for name in RemotePlace(address).sizes() if name.startswith("pushing-")]


def test_the_marker_of_a_push_that_was_killed_is_no_obstacle_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = tmp_path / "far"
    far.mkdir()
    (far / "pushing-0123456789abcdef").touch()
    monkeypatch.setattr(remote, "_PATIENCE", 0.0)
    with pytest.raises(StoreError, match=r"Another push to .* is under way, or was killed"):
        push(made(tmp_path, "mine", "a"), str(far))
    os.utime(far / "pushing-0123456789abcdef", (0, 0))
    push(tmp_path / "mine", str(far))
    assert details_of_pull(str(far), tmp_path / "back") == {"a"}


def test_a_marker_that_goes_while_it_is_looked_at_is_no_obstacle(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other push ends after its marker was listed, and before its age is asked for."""
    push(made(tmp_path, "one", "a"), address)
    place, marker = RemotePlace(address), "pushing-0123456789abcdef"
    (tmp_path / "empty").touch()
    place.write(marker, tmp_path / "empty")
    really = type(place._files).ls

    def listed(self: Any, path: str, detail: bool = True, **kwargs: Any) -> Any:
        found = really(self, path, detail=detail, **kwargs)
        if not detail:  # names alone: it is markers that are looked for
            assert any(each.endswith(marker) for each in found)
            place._remove(marker)
            monkeypatch.undo()
        return found

    monkeypatch.setattr(type(place._files), "ls", listed)
    push(made(tmp_path, "two", "b"), address)
    assert details_of_pull(address, tmp_path / "back") == {"a", "b"}


def test_a_push_that_fails_while_it_looks_for_others_leaves_no_marker(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = RemotePlace(address)

    def fails(self: Any, path: str) -> Any:
        raise PermissionError("no")

    monkeypatch.setattr(type(place._files), "modified", fails)
    with pytest.raises(StoreError, match="PermissionError: no"):
        push(made(tmp_path, "one", "a"), address)
    assert not [name for name in place.sizes() if name.startswith("pushing-")]


def test_a_push_that_was_believed_dead_does_not_undo_another_one(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = made(tmp_path, "one", "a"), made(tmp_path, "two", "b")
    monkeypatch.setattr(remote, "_STALE", -1.0)  # every marker is that of a dead push
    really, waiting = remote._merged_with, [two]

    def slow(place: RemotePlace, folder: Path, *, there: bool) -> object:
        answer = really(place, folder, there=there)
        if waiting:
            push(waiting.pop(), address)
        return answer

    monkeypatch.setattr(remote, "_merged_with", slow)
    with pytest.raises(StoreError, match=r"came first; run the command again"):
        push(one, address)
    push(one, address)
    assert details_of_pull(address, tmp_path / "back") == {"a", "b"}


def test_more_than_the_limit_is_not_fetched(tmp_path: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    push(made(tmp_path, "mine", "a"), address)
    size = sum(RemotePlace(address).sizes().values())
    with pytest.raises(StoreError, match="give more with --limit"):
        pull(address, tmp_path / "back", limit=size - 1)
    assert not (tmp_path / "back").exists()
    assert run(["store", "pull", address, str(tmp_path / "back"), "--limit", "0.0000001"]) == 2
    assert "are fetched; give more with --limit" in capsys.readouterr().err
    assert pull(address, tmp_path / "back", limit=size).objects == 2


def test_a_push_while_a_hunt_writes_is_one_moment(tmp_path: Path, address: str) -> None:
    with Store.create(tmp_path / "mine") as store:
        add(store, make_case(tmp_path, "a"), detail="a")
        assert (tmp_path / "mine" / "store.db-wal").stat().st_size  # what was written is in the log alone
        push(tmp_path / "mine", address)
        with store.transaction() as database:
            database.execute("UPDATE bugs SET summary = 'half of something'")
            push(tmp_path / "mine", address)
    pull(address, tmp_path / "back")
    with Store.open(tmp_path / "back") as store:
        assert [bug.summary for bug in store.bugs()] == ["wrong"]


def test_half_a_push_is_not_seen(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    push(made(tmp_path, "mine", "a"), address)
    made(tmp_path, "mine", "b")
    before = RemotePlace(address).sizes()

    def broken(*_: object) -> None:
        raise OSError("the line is dead")

    monkeypatch.setattr("shutil.copyfileobj", broken)
    monkeypatch.setattr(remote, "pieces_of", lambda path: (broken() for _ in "x"))
    with pytest.raises(StoreError, match="the line is dead"):
        push(tmp_path / "mine", address)
    monkeypatch.undo()
    assert RemotePlace(address).sizes() == before
    assert details_of_pull(address, tmp_path / "back") == {"a"}
    push(tmp_path / "mine", address)
    assert details_of_pull(address, tmp_path / "back") == {"a", "b"}


def test_a_damaged_object_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = made(tmp_path, "mine", "a")
    push(mine, str(tmp_path / "there"))  # a folder needs no scheme, and what lies there is a store
    assert details(tmp_path / "there") == {"a"}
    spoilt = next((tmp_path / "there" / "objects").glob("*/*"))
    spoilt.write_bytes(b"x" * (spoilt.stat().st_size + 1))
    assert run(["store", "pull", str(tmp_path / "there"), str(tmp_path / "back"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert "is damaged; it is skipped" in told["damaged"]["first"][0] and told["objects"] == 1
    next((mine / "objects").glob("*/*")).write_bytes(b"y")
    assert run(["store", "push", str(mine), str(tmp_path / "elsewhere")]) == 1
    assert "is not sent" in capsys.readouterr().err


def test_a_store_in_use_is_neither_replaced_nor_read_without_its_log(tmp_path: Path) -> None:
    """Replacing the database beside a write-ahead log damages it; reading it without the log loses rows."""
    mine = made(tmp_path, "mine", "a")
    with Store.create(tmp_path / "there") as hunted:
        add(hunted, make_case(tmp_path, "b"), detail="b")
        with pytest.raises(StoreError, match="is in use"):
            push(mine, str(tmp_path / "there"))
        with pytest.raises(StoreError, match="is in use"):
            pull(str(tmp_path / "there"), tmp_path / "back")
        assert not (tmp_path / "back").exists()
    assert details(tmp_path / "there") == {"b"}
    push(mine, str(tmp_path / "there"))
    assert details(tmp_path / "there") == {"a", "b"}


def test_links_and_pipes_at_an_address_are_not_followed(tmp_path: Path) -> None:
    there = tmp_path / "there"
    push(made(tmp_path, "mine", "a"), str(there))
    one, *others = (there / "objects").glob("??/*")
    one.unlink()
    one.symlink_to("/dev/zero")
    others[0].unlink()
    os.mkfifo(others[0])
    assert pull(str(there), tmp_path / "back").objects == len(others) - 1
    (there / "store.db").unlink()
    (there / "store.db").symlink_to("/dev/zero")
    with pytest.raises(StoreError, match="is not a plain file"):
        pull(str(there), tmp_path / "back")

    elsewhere, linked = tmp_path / "elsewhere", tmp_path / "linked"
    elsewhere.mkdir(mode=0o755)
    linked.mkdir()
    (linked / "objects").symlink_to(elsewhere)
    with pytest.raises(StoreError, match="is a symbolic link"):
        push(tmp_path / "mine", str(linked))
    assert not list(elsewhere.iterdir()) and elsewhere.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("layout", [SCHEMA - 1, SCHEMA + 1])
def test_stores_of_another_layout_do_not_travel(tmp_path: Path, layout: int) -> None:
    mine = made(tmp_path, "mine", "a")
    push(mine, str(tmp_path / "there"))
    with closing(sqlite3.connect(tmp_path / "there" / "store.db")) as database:
        database.execute(f"PRAGMA user_version = {layout}")
    with pytest.raises(StoreError, match="written by another release of Driftline"):
        pull(str(tmp_path / "there"), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(StoreError, match="written by another release of Driftline"):
        push(mine, str(tmp_path / "there"))


def test_bad_addresses_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = made(tmp_path, "mine", "a")
    with pytest.raises(DriftlineError, match="is no address that fsspec knows"):
        push(mine, "nowhere://x")
    assert run(["store", "pull", str(tmp_path / "empty"), str(tmp_path / "back")]) == 2
    assert "There is no store at" in capsys.readouterr().err and not (tmp_path / "back").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be used"):
        push(mine, str(tmp_path / "file"))
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'driftline\[remote\]'"):
        push(mine, str(tmp_path / "there"))
