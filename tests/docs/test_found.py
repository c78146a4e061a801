"""docs/found tells of the causes that there are: an entry for each, and the counts of the library."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from driftline.causes import builtin

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import _found_pages as pages  # noqa: E402
import found  # noqa: E402

FOUND = ROOT / "docs" / "found"
AGAIN = "python benchmarks/found.py --write-docs writes the pages anew (--keep: without making scripts)"


def test_every_cause_has_one_entry_on_the_page_of_its_compiler() -> None:
    told = [
        (page.stem, name)
        for page in sorted(FOUND.glob("*.md"))
        for name in re.findall(r"^<!-- (\S+) ", page.read_text(), re.M)
    ]
    assert Counter(told) == Counter((cause.compiler.replace(":", "-"), cause.id) for cause in builtin()), AGAIN


def test_pages_and_index_are_those_that_the_library_makes(tmp_path: Path) -> None:
    """Titles, links, releases and counts, and the index over them; the scripts are read back."""
    everything, entries = list(builtin()), pages.read_entries(FOUND)
    for compiler in sorted({cause.compiler for cause in everything}):
        pages.write_page(tmp_path, compiler, everything, entries)
    pages.write_index(tmp_path, everything)
    written = {path.name: path.read_text() for path in FOUND.glob("*.md")}
    assert sorted(written) == sorted(path.name for path in tmp_path.glob("*.md")), AGAIN
    for name, text in written.items():
        assert text == (tmp_path / name).read_text(), f"{name}: {AGAIN}"


def test_a_script_is_made_of_the_witness_that_the_cause_has() -> None:
    scripts = [entry for entry in pages.read_entries(FOUND).values() if entry.script]
    stale = [entry.id for entry in scripts if entry.digest != found.digest_of(builtin().get(entry.id))]
    assert scripts and not stale, AGAIN
