"""Caches the results of scheduled modules, in a folder that the workers of a hunt share: different steps often lead to
the same module, which then need not be compiled again.

Only quick runs use the cache. Never cached: runs that confirm a finding; modules with parallel loops, whose races do
not show every time; and modules that cannot be built, since the message names variables, which differ between modules
of the same structure, so that a confirmation would not match. A cached result has no trace; the caller adds its own.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from driftline.core.wire import decode, encode
from driftline.schedules.requests import Performed
from driftline.schedules.trace import Trace

_NOBODY = Trace("")


class AnsweredModules:
    """The cached results of one hunt, one file for each module."""

    def __init__(self, shared: Path) -> None:
        self._folder = shared

    def path(self, module: Any, plain: Trace, target: str | dict[str, Any]) -> Path:
        """Return the file of a module's result. Its name depends on the module's structure, on the unscheduled function
        of `plain` with its sizes and seed (they determine the right result), and on the target."""
        from tvm_ffi import structural_hash

        asked = f"{structural_hash(module):x} {plain.digest} {json.dumps(target, sort_keys=True)}"
        return self._folder / f"module-{hashlib.sha256(asked.encode()).hexdigest()[:32]}"

    def known(self, path: Path, trace: Trace) -> Performed | None:
        if not path.exists():
            return None
        return replace(decode(Performed, json.loads(path.read_text())), trace=trace)

    def keep(self, path: Path, found: Performed) -> None:
        part = path.with_suffix(f".{os.getpid()}")  # another worker may be writing the same
        part.write_text(json.dumps(encode(Performed, replace(found, trace=_NOBODY))))
        part.replace(path)
