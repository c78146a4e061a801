"""The settings of a server, given when it was started."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from driftline.causes import Library
from driftline.execute.processors import all_cores

MIB = 1 << 20


@dataclass(frozen=True)
class ServeSettings:
    """The settings of one server."""

    store: Path
    library: Library
    host: str = "127.0.0.1"
    read_only: bool = False
    exposed: bool = False  # other machines may reach it
    plugins: tuple[str, ...] = ()
    causes: tuple[Path, ...] = ()
    compare: tuple[Path, ...] = ()  # other stores
    folders: tuple[Path, ...] = ()  # of pages and pictures
    targets: str = ""  # the default of new jobs
    accept: tuple[str, ...] = ()
    upload: int = 256 * MIB  # bytes of a program that is sent
    cores: int = field(default_factory=all_cores)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    folder_key: str = field(default_factory=lambda: secrets.token_urlsafe(18), repr=False)
