"""Opens live objects: torch models and functions, ONNX models, and programs drawn by a property test."""

from __future__ import annotations

import contextlib
import inspect
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from driftline.checking.open import LoadedProgram, open_program
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.text import first_line
from driftline.execute.pool import Pool
from driftline.inputs.sizes import Sizes
from driftline.programs.archive_scan import trusting
from driftline.programs.live import LiveProgram
from driftline.programs.trained import asks_for_gradients


@runtime_checkable
class Openable(Protocol):
    """An object that can write itself to a file for workers, as a program drawn by a property test can."""

    def open(self, pool: Pool, options: CheckOptions) -> LoadedProgram: ...


def open_live(program: Any, example: Any, pool: Pool, options: CheckOptions, sizes: Sizes) -> LoadedProgram:
    """Write any object that `check` accepts as a program to a file that workers can run, and load it."""
    if isinstance(program, (str, Path)):
        return open_program(str(program), pool, options, sizes)
    if isinstance(program, Openable):
        return program.open(pool, options)
    with tempfile.TemporaryDirectory() as folder:
        if type(program).__module__.startswith("onnx"):
            path = Path(folder) / "model.onnx"
            path.write_bytes(program.SerializeToString())
            trained = False
        else:
            path = Path(folder) / "model.pt2"
            _export(program, example, path, sizes)
            trained = asks_for_gradients(LiveProgram.bind("torch", program, example))
        with trusting():  # the file holds the caller's own program
            return replace(open_program(str(path), pool, options), trained=trained)


def _export(model: Any, example: Any, path: Path, sizes: Sizes) -> None:
    """Write a live torch model to a file, so that other processes can run it and the store can keep it."""
    torch = sys.modules.get("torch")
    if torch is None or not callable(model):
        raise DriftlineError(
            f"driftline.check cannot take a {type(model).__name__}: give an nn.Module or torch function with example"
            " inputs, an ONNX model, or the name of a factory as in 'file.py:make' (TensorFlow and JAX programs, too)."
        )
    if example is None:
        raise DriftlineError("driftline.check needs example inputs for a live model: check(model, (x,)).")
    module = model
    if not isinstance(model, torch.nn.Module):

        class Function(torch.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, *args: Any, **kwargs: Any) -> Any:
                return model(*args, **kwargs)

        with contextlib.suppress(TypeError, ValueError):  # inputs have the names of the function's arguments
            own = inspect.signature(model)
            first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
            Function.forward.__signature__ = own.replace(parameters=[first, *own.parameters.values()])  # type: ignore[attr-defined]
        module = Function()
    args, kwargs = ((), example) if isinstance(example, dict) else (tuple(example), {})
    try:
        with torch.no_grad():
            exported = torch.export.export(module, args, kwargs, dynamic_shapes=_open_shapes(model, example, sizes))
            torch.export.save(exported, str(path))
    except Exception as error:
        raise DriftlineError(
            f"The model cannot be captured by torch.export ({type(error).__name__}: {first_line(str(error))})."
            " Put it into a file and pass 'file.py:make', where make() returns (model, inputs)."
        ) from error


def _open_shapes(model: Any, example: Any, sizes: Sizes) -> Any:
    """Return which dimensions torch.export is to keep dynamic, for the inputs whose shapes are asked for: all that the
    model does not fix."""
    torch = sys.modules["torch"]
    given = LiveProgram.bind("torch", model, example).arguments
    axes = {
        name: dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) if name in sizes.shapes else None
        for name, value in given.items()
        if isinstance(value, torch.Tensor)
    }
    if not sizes.shapes or len(axes) < len(given):  # nested arguments stay as they are
        return None
    return axes if isinstance(example, dict) else tuple(axes.values())
