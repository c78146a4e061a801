"""Writes docs/licences.md: the licence of every package that `make install` installs, as the package declares it.

.venv/bin/python docs/site/licences.py
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import Distribution, PackageMetadata, PackageNotFoundError, distribution
from pathlib import Path

from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "licences.md"
LOCK = ROOT / "requirements" / "locked.txt"
_HEAD = """# Licences of what Driftline uses

Driftline is under the [Apache License 2.0](../LICENSE). Its wheel holds Driftline's own files alone: every package
below is installed from the package index, under its own licence, and only where its extra is asked for. The page is
written by `docs/site/licences.py` from what the installed packages declare.

| package | asked for by | licence |
|---|---|---|
"""
_MORE = """
## What they bring

`make install` installs these too, because a package above asks for them (`editables`: to build Driftline).
The torch of the package index brings GPU libraries of NVIDIA beside them, under NVIDIA's licences.

| package | licence |
|---|---|
"""
_UNKNOWN = "not installed when the page was written"
# What a licence file says, where a package declares nothing else.
_TEXTS = {"Licensed under the Apache License, Version 2.0": "Apache-2.0", "3. Neither the name": "BSD-3-Clause"}
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


def brought() -> list[str]:
    """Every other package of the lock."""
    named = {canonicalize_name(name) for name in dependencies()}
    return [name for name in re.findall(r"^([a-z0-9-]+)==", LOCK.read_text(), re.MULTILINE) if name not in named]


def licence_of(package: str) -> str:
    """The licence that an installed package declares, in short; empty for one that is not installed."""
    try:
        found = distribution(package)
    except PackageNotFoundError:
        return ""
    return _declared(found.metadata) or _written(found) or "not declared; see the package"


def _written(found: Distribution) -> str:
    texts = [file.read_text() for file in found.files or () if file.name.startswith("LICENSE")]
    return next((name for words, name in _TEXTS.items() if any(words in text for text in texts)), "")


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

    def licence(package: str) -> str:
        return licence_of(package) or known.get(package, _UNKNOWN)

    direct = sorted(dependencies().items(), key=lambda item: item[0].lower())
    rows = [
        f"| {name} | {', '.join(one or 'Driftline' for one in extras)} | {licence(name)} |" for name, extras in direct
    ]
    more = [f"| {name} | {licence(name)} |" for name in brought()]
    return _HEAD + "\n".join(rows) + "\n" + _MORE + "\n".join(more) + "\n"


def listed() -> dict[str, str]:
    """What the page says now, by package."""
    text = PAGE.read_text() if PAGE.exists() else ""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: row[-1] for row in rows if row[0] != "package"}


if __name__ == "__main__":
    PAGE.write_text(page(listed()))
