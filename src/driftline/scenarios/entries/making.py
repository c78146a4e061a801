"""The event in which a script compiles: the real compiler makes the object, also in eager runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from driftline.scenarios.happening import Happening
from driftline.scenarios.recording import MAKE, Fact

# Exceptions that show a fault in the compiler; all others mean that it does not support the program.
_CRASHES = ("InternalTorchDynamoError", "InductorError", "BackendCompilerFailed", "CppCompileError")
_CRASHES_OF_PYTHON = (AssertionError, LookupError, AttributeError, NameError)


class Making(Happening):
    """A call of a function such as `torch.export.export`. `build` makes the object. `rehearse` calls the program itself
    on the same inputs: if that raises, the failure is not the compiler's."""

    kind = MAKE
    sharing = False
    printing = False
    own_errors = False

    def __init__(self, name: str, build: Callable[[], Any], rehearse: Callable[[], Any], script: str) -> None:
        self.name = name
        self._build, self._rehearse, self._script = build, rehearse, script

    def run(self) -> Any:
        """Make the object. In an eager run, an error is forgiven if the program itself runs on these inputs."""
        if not self.eager:
            return self._build()
        try:
            with undisturbed():
                return self._build()
        except OSError:  # the script has no permission to write there
            raise
        except Exception:
            self.forgiven = self._runs()
            raise

    def _runs(self) -> bool:
        try:
            self._rehearse()
        except Exception:
            return False
        return True

    def roots(self, output: Any) -> dict[str, Any]:
        return {}

    def facts(self) -> dict[str, Fact]:
        return {"made": Fact(str(not self.forgiven))}

    def declines(self, error: BaseException) -> bool:
        """True unless the exception shows a fault in the compiler. Exceptions from the script's own lines never do,
        because the script runs there on tensors without numbers."""
        crash = type(error).__name__ in _CRASHES or isinstance(error, _CRASHES_OF_PYTHON)
        return not crash or _raised_by(error) == self._script


def _raised_by(error: BaseException) -> str:
    """Return the file whose code raised the exception."""
    trace, file = error.__traceback__, ""
    while trace is not None:
        file, trace = trace.tb_frame.f_code.co_filename, trace.tb_next
    return file


@contextmanager
def undisturbed() -> Iterator[None]:
    """A context in which compilers work as in the compiled run: the modes of eager runs are switched off."""
    with ExitStack() as stack:
        stack.enter_context(_disable_current_modes())
        stack.enter_context(torch.compiler.set_stance("default"))
        yield


def called_by_library() -> bool:
    """True if the caller of the calling function is torch or a library that compiles for it."""
    caller = sys._getframe(2).f_globals.get("__name__", "")
    return caller.partition(".")[0] in ("torch", "onnxscript", "onnxruntime")


@contextmanager
def put_in_place(owner: Any, **values: Any) -> Iterator[None]:
    """A context in which attributes of a module or class are replaced."""
    before = {name: getattr(owner, name) for name in values}
    own = vars(owner)
    inherited = [name for name in values if name not in own]
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if name in inherited:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
