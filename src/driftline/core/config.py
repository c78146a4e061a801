"""The folders and files that Driftline uses. Each has one environment variable and one default."""

from __future__ import annotations

import os
from pathlib import Path


def cache_home() -> Path:
    """Return the folder for everything that can be made again: environments, conversions, compiler caches, scratch.
    `DRIFTLINE_CACHE` overrides it."""
    explicit = os.environ.get("DRIFTLINE_CACHE")
    if explicit:
        return Path(explicit).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (Path(base).expanduser() / "driftline").resolve()


def default_store() -> Path:
    """Return the store that is used when no `--store` is given. `DRIFTLINE_STORE` overrides it."""
    return Path(os.environ.get("DRIFTLINE_STORE", ".driftline"))


def user_settings_file() -> Path:
    """Return the path of the user's settings file. `XDG_CONFIG_HOME` overrides its folder."""
    base = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    if not base.is_absolute():  # a relative path would name a folder of the current project
        base = Path("~/.config").expanduser()
    return base / "driftline" / "config.toml"
