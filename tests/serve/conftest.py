"""Servers for the tests of a module, and a store with bugs of every kind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

from filled_store import fill
from serving import Serve, served

from driftline.causes import builtin
from driftline.serve.settings import ServeSettings


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    """`serve(store, read_only=True)`: servers that end with the module."""
    with ExitStack() as stack:
        yield lambda store, **more: stack.enter_context(served(ServeSettings(store=store, library=builtin(), **more)))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("served") / "store")
