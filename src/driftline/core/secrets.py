"""Keys of services: they stand in the environment of the main process and are kept from everything else."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

KEY_SUFFIX = "_API_KEY"
_taken: dict[str, str] = {}


def without_keys(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables for a process that runs programs of others."""
    return {name: value for name, value in variables.items() if not name.endswith(KEY_SUFFIX)}


def take_key(name: str) -> str:
    """The key in this variable; empty where there is none. It is taken out of the environment, also out of the memory
    that the kernel shows to all processes of the user as /proc/PID/environ, which no sandbox hides."""
    value = os.environ.get(name)
    if value:
        _taken[name] = value
        libc = ctypes.CDLL(None)
        libc.getenv.restype = ctypes.c_void_p
        if place := libc.getenv(name.encode()):
            ctypes.memset(place, ord("x"), len(os.fsencode(value)))
        del os.environ[name]
    return _taken.get(name, "")


def scrubbed(text: str, key: str) -> str:
    """The text without the key, wherever it comes from: a server may repeat it in an error."""
    return text.replace(key, "[key]") if key else text
