"""Where Driftline keeps things. Nothing here is ambient: each place has one variable and one default."""

from __future__ import annotations

import os
from pathlib import Path


def cache_home() -> Path:
    """For what can be made again: environments, conversions, compiler caches, scratch. `DRIFTLINE_CACHE` moves it."""
    explicit = os.environ.get("DRIFTLINE_CACHE")
    if explicit:
        return Path(explicit).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (Path(base).expanduser() / "driftline").resolve()


def default_store() -> Path:
    """Where findings are kept when no `--store` is given. `DRIFTLINE_STORE` moves it."""
    return Path(os.environ.get("DRIFTLINE_STORE", ".driftline"))


def user_settings_file() -> Path:
    """The file with the user's own settings. `XDG_CONFIG_HOME` moves it."""
    base = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    if not base.is_absolute():  # such a value would name a folder of whatever project is the current one
        base = Path("~/.config").expanduser()
    return base / "driftline" / "config.toml"
