"""News fragments: each is of a known type, and becomes a line of the change log."""

from __future__ import annotations

import subprocess
import sys
import tomllib

from documents import ROOT

FRAGMENTS = sorted(path for path in (ROOT / "changes").iterdir() if path.name != "README.md")


def test_every_fragment_is_one_sentence_of_a_known_type() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    known = {one["directory"] for one in settings["type"]}
    readme = (ROOT / "changes" / "README.md").read_text()
    assert all(f".{name}.md" in readme for name in known)
    for path in FRAGMENTS:
        name, *kind, suffix = path.name.split(".")
        assert name and suffix == "md" and kind and kind[-1] in known, f"{path.name}: see changes/README.md"
        assert len(path.read_text().strip().splitlines()) == 1, f"{path.name}: one line for one change"


def test_the_change_log_is_made_of_the_fragments() -> None:
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9", "--date", "2030-01-01"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "## 9.9 (2030-01-01)" in done.stdout
    for path in FRAGMENTS:
        assert path.read_text().strip() in done.stdout
