"""The code that compilers keep on disk for later processes: its folders, and the removal of damaged entries.

There are lasting caches, which only nurseries write to, and caches of one run, for its workers. A nursery has no
sandbox and loads code from its caches, so workers, which run untrusted programs, can read the lasting caches but not
write to them. The workers' caches are in the scratch folder of the run and are removed with it.

A compiler that is killed while it writes an entry, or a full disk, leaves part of a file, which every later process
loads: the resulting error is no bug of the compiler. Standard library only: this runs in workers and in the parent.
"""

from __future__ import annotations

import ast
import contextlib
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from driftline.core.config import cache_home

# Variables that name the folders in which compilers keep code, and the folder's name among the caches. Compilers in the
# first table always keep code, those in the second only if the user has set the variable.
_FOLDERS = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton", "CUDA_CACHE_PATH": "cuda"}
_WHERE_SET = {"JAX_COMPILATION_CACHE_DIR": "jax", "TVM_FFI_CACHE_DIR": "tvm-ffi"}
VARIABLES = (*_FOLDERS, *_WHERE_SET)
_LIBRARIES = (".so", ".o", ".cubin")
_NOT_ENTRIES = (".lock",)


# Called after the caches of a process have moved. A backend whose compiler keeps a folder's name in memory adds a
# function here when its modules are imported.
after_move: list[Callable[[], None]] = []


def lasting_caches() -> Path:
    """Return the folder of the caches that only nurseries write to."""
    return cache_home() / "compilers"


def cache_variables(caches: Path) -> dict[str, str]:
    """Return the environment variables that make compilers keep their caches below a folder."""
    return {variable: str(caches / folder) for variable, folder in _FOLDERS.items()}


def move_caches(caches: Path) -> None:
    """Make the compilers of this process keep their caches below another folder from now on."""
    told = cache_variables(caches)
    told |= {variable: str(caches / folder) for variable, folder in _WHERE_SET.items() if os.environ.get(variable)}
    os.environ.update(told)
    for moved in after_move:
        moved()


def own_caches() -> list[Path]:
    """Return the folders in which compilers of this process keep code."""
    return [Path(os.environ[variable]) for variable in VARIABLES if os.environ.get(variable)]


def point_elsewhere(folder: Path) -> None:
    """Make the compilers of this process use an empty folder for their caches from now on. A backend that keeps a
    folder's name in memory resets it itself (`Backend.begin_anew`)."""
    for variable in VARIABLES:
        if os.environ.get(variable):
            own = folder / variable.lower()
            own.mkdir(parents=True, exist_ok=True)
            os.environ[variable] = str(own)


def remove_damaged(places: list[Path]) -> int:
    """Delete damaged entries; return how many there were."""
    damaged = [entry for entry in _entries(places) if is_damaged(entry)]
    return sum(_removed(entry) for entry in damaged)


def remove_all(places: list[Path]) -> int:
    """Delete every entry, file by file, and return the number. Folders stay, for processes that are writing to them."""
    return sum(_removed(entry) for entry in list(_entries(places)))


def is_damaged(entry: Path) -> bool:
    """True if a file is empty or cut short, as far as its format shows."""
    try:
        size = entry.stat().st_size
        if size == 0:
            return True
        if entry.suffix in _LIBRARIES:
            return _is_cut_library(entry, size)
        if entry.suffix == ".py":
            ast.parse(entry.read_bytes())
    except (SyntaxError, ValueError):
        return True
    except OSError:  # gone meanwhile
        return False
    return False


def _is_cut_library(entry: Path, size: int) -> bool:
    """True if a 64-bit ELF file ends before the end of its section headers, which linkers write last."""
    with open(entry, "rb") as file:
        header = file.read(64)
    if header[:4] != b"\x7fELF":
        return True
    if header[4] != 2 or len(header) < 64:
        return len(header) < 64
    start = struct.unpack_from("<Q", header, 0x28)[0]
    each, count = struct.unpack_from("<HH", header, 0x3A)
    return bool(size < start + each * count)


def _entries(places: list[Path]) -> Iterator[Path]:
    for place in places:
        for folder, _, names in os.walk(place):
            yield from (Path(folder) / name for name in names if not name.endswith(_NOT_ENTRIES))


def _removed(entry: Path) -> bool:
    with contextlib.suppress(OSError):
        entry.unlink()
        return True
    return False
