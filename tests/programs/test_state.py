"""Which files count as data of a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftline.programs.state import recording_opened_files


def test_what_packages_read_when_they_are_imported_is_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers reads the metadata of everything that is installed, the first time it is imported and not again. So
    with packages in a folder of their own (`pip install --target`), a model seemed to be another one in every second
    process."""
    installed, own = tmp_path / "lib", tmp_path / "library"
    read = [installed / "some-1.0.dist-info" / "METADATA", installed / "some" / "table.bin", own / "labels.txt"]
    for path in read:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    monkeypatch.syspath_prepend(str(own))
    monkeypatch.syspath_prepend(str(installed))
    with recording_opened_files() as opened:
        for path in read:
            path.read_text()
    assert opened == {str(own / "labels.txt")}
