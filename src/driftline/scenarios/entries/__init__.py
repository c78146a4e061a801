"""The compiler entry points of scripts beside `torch.compile`: one file for each, patched while the script runs.

In every run the real compiler makes the real object (except for packages of AOTInductor, which take long), so a script
that inspects the object sees the same in all runs. A call of the object is an event. The compiled run calls the object;
an eager run calls a `Twin` (`twin.py`) instead: the original callable, copied when the object was made, with the
parameters and buffers of the object.

To add an entry point, write a file with a context manager `installed(recorder)` that replaces the entry point's
functions by the recorder's, and add the file to `_ENTRIES`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from driftline.scenarios.recorder import CallRecorder

# The module of each entry point, and a word that every script using it contains.
_ENTRIES = (
    ("dynamo", ""),
    ("export", "export"),
    ("torchscript", "jit"),
    ("aotinductor", "aoti"),
    ("onnx", "onnx"),
)


@contextmanager
def entries_installed(recorder: CallRecorder, text: str) -> Iterator[None]:
    """A context in which calls of the entry points that occur in `text`, the script, are passed to the recorder."""
    with ExitStack() as stack:
        for name, word in _ENTRIES:
            if word in text:
                stack.enter_context(importlib.import_module(f"{__name__}.{name}").installed(recorder))
        yield
