"""Commands that a page shows with an hour, a bug of the reader's own or a language model, run with less of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import run_in, run_typed, write_files

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
ENDED = (0, 1, 5)  # nothing found, something found, nothing compared in so little time
SHORT = ("--budget", "15s")


@pytest.mark.parametrize("page", ["docs/targets.md", "docs/tutorial.md", "docs/how-to/add-an-accelerator.md"])
def test_a_search(page: str, tmp_path: Path) -> None:
    """It ends with its budget, whatever it found, and a report can be written of it."""
    write_files(page, tmp_path)
    run_typed(page, "driftline hunt", tmp_path, *SHORT, codes=ENDED)
    report = run_in(tmp_path, "-m", "driftline", "report", "--out", "report.html")
    assert report.returncode == 0 and (tmp_path / "report.html").is_file(), report.stderr
