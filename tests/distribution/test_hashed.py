"""The list of packages with hashes, which `make install HASHES=1` installs from."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "requirements" / "hashed.py"


def _lines(*entries: dict[str, Any]) -> list[str]:
    spec = importlib.util.spec_from_file_location("hashed", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[str] = module.lines({"install": list(entries)})
    return found


def entry(name: str, **about: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "version": "1.0+cpu"}, "download_info": {"url": "https://example.org/", **about}}


def test_each_package_is_listed_with_its_hash() -> None:
    found = _lines(
        entry("torch", archive_info={"hashes": {"sha256": "ab"}}),
        entry("Click", archive_info={"hashes": {"sha256": "cd"}}),
        entry("driftline", dir_info={}),
    )
    assert found == ["Click==1.0+cpu --hash=sha256:cd", "torch==1.0+cpu --hash=sha256:ab"]


def test_a_package_without_a_hash_is_refused() -> None:
    with pytest.raises(SystemExit, match="no SHA-256 of torch"):
        _lines(entry("torch", archive_info={}))
