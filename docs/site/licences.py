"""Writes docs/licences.md: the licence of every package that pyproject.toml names, as the package itself declares it.

.venv/bin/python docs/site/licences.py
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "licences.md"
_HEAD = """# Licences of what Driftline uses

Driftline is under the [Apache License 2.0](../LICENSE). Its wheel holds Driftline's own files alone: every package
below is installed from the package index, under its own licence, and only where its extra is asked for. The page is
written by `docs/site/licences.py` from what the installed packages declare.

| package | asked for by | licence |
|---|---|---|
"""
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def dependencies() -> dict[str, list[str]]:
    """Every package that pyproject.toml names, with the extras that name it; an empty name is Driftline itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: dict[str, list[str]] = {}
    for extra, wanted in {"": project["dependencies"], **project["optional-dependencies"]}.items():
        for requirement in wanted:
            name = _NAME.match(requirement)
            if name and name[0] != "driftline":
                found.setdefault(name[0], []).append(extra)
    return found


def licence_of(package: str) -> str:
    """The licence that an installed package declares, in short; empty for one that is not installed."""
    try:
        about = metadata(package)
    except PackageNotFoundError:
        return ""
    return _declared(about) or "not declared; see the package"


def _declared(about: PackageMetadata) -> str:
    if "License-Expression" in about:
        return about["License-Expression"]
    classified = [
        line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or () if line.startswith("License :: ")
    ]
    named = [name for name in classified if name != "OSI Approved"]
    text = (about["License"] or "" if "License" in about else "").strip().splitlines()
    return ", ".join(named) or (text[0][:60] if text else "")


def page(known: dict[str, str]) -> str:
    """The page; `known`: what an earlier page says of packages that are not installed here."""
    rows = []
    for package, extras in sorted(dependencies().items(), key=lambda item: item[0].lower()):
        licence = licence_of(package) or known.get(package, "not installed when the page was written")
        rows.append(f"| {package} | {', '.join(extra or 'Driftline' for extra in extras)} | {licence} |")
    return _HEAD + "\n".join(rows) + "\n"


def listed() -> dict[str, str]:
    """What the page says now, by package."""
    text = PAGE.read_text() if PAGE.exists() else ""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: row[2] for row in rows if len(row) == 3 and row[0] != "package"}


if __name__ == "__main__":
    PAGE.write_text(page(listed()))
