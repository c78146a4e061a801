"""One filled store for all tests of reports: nothing here writes into it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from filled_store import fill

from driftline.report.gather import gather
from driftline.report.view import ReportView


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("filled") / "store")


@pytest.fixture(scope="session")
def bare_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Findings of `driftline check` alone, no hunt."""
    return fill(tmp_path_factory.mktemp("bare") / "store", hunts=False)


@pytest.fixture(scope="session")
def view(store: Path) -> ReportView:
    return gather(store)
