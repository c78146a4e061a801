"""API keys of services: kept in the main process only, and removed from its environment."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

KEY_SUFFIX = "_API_KEY"
_taken: dict[str, str] = {}


def without_keys(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables without API keys, for a process that runs untrusted programs."""
    return {name: value for name, value in variables.items() if not name.endswith(KEY_SUFFIX)}


def take_key(name: str) -> str:
    """Return the key in a variable, or an empty string, and remove it from the environment. It is also overwritten in
    the memory that the kernel shows to the user's processes as /proc/PID/environ, which no sandbox hides."""
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
    """Return the text without the key: a server may repeat the key in an error message."""
    return text.replace(key, "[key]") if key else text
