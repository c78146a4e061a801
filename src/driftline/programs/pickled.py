"""Loads torch.export archives in workers without running their code: the second guard besides the scan of
`archive_scan.py`.

`torch.export.load` unpickles example inputs and custom objects with Python's own unpickler. Unless the user trusts the
files of the run (`--trust`), the archive is loaded with torch's restricted unpickler, which supports tensors, plain
containers and the key-value caches of transformers, and calls nothing else. So an archive that evades the scan does not
run code either.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.vouched import vouched

_RESTRICTED = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # torch's own switch, which its callers cannot override


def load_exported(path: Path, **options: Any) -> Any:
    """Load a torch.export archive. Pickles in it call nothing, unless the user trusts the file."""
    import torch

    if vouched():
        return torch.export.load(str(path), **options)
    try:
        with _restricted():
            return torch.export.load(str(path), **options)
    except pickle.UnpicklingError as error:
        raise DriftlineError(
            f"{path.name} holds pickled objects other than tensors. If you trust whoever made the file, add --trust."
        ) from error


class _NoPickles:
    """Replaces the module `pickle` where torch unpickles constants without restrictions."""

    @staticmethod
    def loads(data: bytes) -> Any:
        raise pickle.UnpicklingError("a constant that is a Python object")


@contextlib.contextmanager
def _restricted() -> Iterator[None]:
    import torch
    from torch.export.pt2_archive import _package

    before = os.environ.get(_RESTRICTED)
    os.environ[_RESTRICTED] = "1"
    _package.pickle = _NoPickles  # type: ignore[attr-defined]  # opaque constants, which the switch does not reach
    try:
        with torch.serialization.safe_globals(_caches()):
            yield
    finally:
        _package.pickle = pickle  # type: ignore[attr-defined]
        if before is None:
            del os.environ[_RESTRICTED]
        else:
            os.environ[_RESTRICTED] = before


def _caches() -> list[Any]:
    """Return the classes of key-value caches, which transformers models have among their example inputs."""
    module = sys.modules.get("transformers.cache_utils")
    found = vars(module).items() if module else ()
    return [kind for name, kind in found if isinstance(kind, type) and name.endswith(("Cache", "Layer"))]
