"""The process of one job: `python -m driftline.serve.child STORE NUMBER`.

It can be interrupted from its first moment on, while it still imports what it needs; a second interrupt does not
disturb the tidying up after the first one.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from driftline.core.errors import DriftlineError
from driftline.serve import records


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def main(arguments: Sequence[str]) -> int:
    signal.signal(signal.SIGINT, _interrupt)
    store, number = Path(arguments[0]), int(arguments[1])
    folder = records.folder_of(store.resolve(), number)
    record = records.load(folder)
    if record is None:
        print(f"driftline: {folder} holds no job.", file=sys.stderr)
        return DriftlineError.exit_code
    try:
        from driftline.serve.work import work

        return work(record, store, folder)
    except KeyboardInterrupt:  # before the work had begun
        before = records.load_progress(folder)
        records.save_progress(folder, replace(before, code=records.INTERRUPTED, outcome="Stopped before it began."))
        return records.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
