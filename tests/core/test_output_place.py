"""Where a person wants output: what cannot be written is one sentence, before work is spent."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftline.cli import run
from driftline.core.errors import DriftlineError
from driftline.core.output_place import make_folder, require_place


def test_a_file_that_cannot_be_written_is_refused_by_trying(tmp_path: Path) -> None:
    require_place(tmp_path / "new.npz")
    require_place(Path("/dev/stdout"))
    assert not list(tmp_path.iterdir()), "trying leaves nothing behind"
    for path, told in (
        (tmp_path, "is a folder; name a file in it"),
        (tmp_path / "none" / "a.npz", "there is no folder"),
        (Path("/proc/a.npz"), "cannot be written"),  # not even by root
    ):
        with pytest.raises(DriftlineError, match=told):
            require_place(path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    for path, told in ((tmp_path / "file", "it is a file"), (Path("/proc/none"), "cannot be made")):
        with pytest.raises(DriftlineError, match=told):
            make_folder(path)


def test_commands_say_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run(["compose", "--out", str(tmp_path / "file"), "--ops", "exp,log", "--length", "1", "--all"]) == 2
    assert run(["inputs", "convert", str(tmp_path / "none.npz"), "/proc/b.npz"]) == 2
    told = capfd.readouterr().err
    assert "it is a file" in told and "cannot be written" in told and "Traceback" not in told
