"""What scripts compile with beside `torch.compile`: one file for each entry point, installed around the script.

In every run the real compiler makes the real object (but for packages of AOTInductor, which take long), so a script
that looks at the object sees the same in all runs. A call of the object is an event: the compiled run calls the object,
an eager run calls a `Twin` (`twin.py`), which is the callable as it was when the object was made, with the parameters
and buffers of the object.

To add an entry point, write a file with a context manager `installed(recorder)` that puts the recorder's calls in place
of the entry point's functions, and name the file below.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from driftline.scenarios.recorder import CallRecorder

# The module of each entry point, and words of a script that may use it
_ENTRIES = (
    ("dynamo", ""),
    ("export", "export"),
    ("torchscript", "jit"),
    ("aotinductor", "aoti"),
    ("onnx", "onnx"),
)


@contextmanager
def entries_installed(recorder: CallRecorder, text: str) -> Iterator[None]:
    """Inside the block, calls of all entry points come to the recorder. `text`: the script."""
    with ExitStack() as stack:
        for name, word in _ENTRIES:
            if word in text:
                stack.enter_context(importlib.import_module(f"{__name__}.{name}").installed(recorder))
        yield
