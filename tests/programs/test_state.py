"""Which files count as data of a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from driftline.programs.state import recording_opened_files


def test_what_packages_read_when_they_are_imported_is_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers reads the metadata of everything that is installed, the first time it is imported and not again. So
    with packages in a folder of their own (`pip install --target`), a model seemed to be another one in every second
    process."""
    installed, own = tmp_path / "lib", tmp_path / "library"
    about = installed / "some-1.0.dist-info"
    data = [own / "labels.txt", installed / "mine" / "labels.txt"]  # the second beside what pip installed
    read = [about / "METADATA", installed / "some" / "table.bin", *data]
    for path in read:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (about / "RECORD").write_text("some/__init__.py,,\nsome/table.bin,,\n../bin/some,,\n")
    monkeypatch.syspath_prepend(str(own))
    monkeypatch.syspath_prepend(str(installed))
    with recording_opened_files() as opened:
        for path in read:
            path.read_text()
    assert opened == {str(path) for path in data}


def test_without_a_list_of_what_was_installed_nothing_beside_it_is_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a package's own tables would be data, which only the process that imports it first reads."""
    table = tmp_path / "some" / "table.bin"
    for folder in (tmp_path / "some-1.0.dist-info", table.parent):
        folder.mkdir()
    table.write_text("x")
    monkeypatch.syspath_prepend(str(tmp_path))
    with recording_opened_files() as opened:
        table.read_text()
    assert not opened


READS = """
import sys
sys.prefix = sys.base_prefix = sys.argv[1]
from driftline.programs.state import recording_opened_files
with recording_opened_files() as opened:
    for path in sys.argv[2:]:
        open(path).close()
print(*opened)
"""


def test_a_folder_beside_the_interpreter_is_not_the_interpreter(tmp_path: Path) -> None:
    inside, beside = tmp_path / "venv" / "share.txt", tmp_path / "venv-data" / "labels.txt"
    for path in (inside, beside):
        path.parent.mkdir()
        path.write_text("x")
    words = [sys.executable, "-c", READS, str(tmp_path / "venv"), str(inside), str(beside)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(beside)]
