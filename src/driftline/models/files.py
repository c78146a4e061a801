"""Write a model of the corpus to a file. Mistakes raise one sentence each."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from driftline.core.errors import DriftlineError, innermost
from driftline.core.text import first_line
from driftline.models import build, find

OPSETS = {"dynamo": 18, "torchscript": 14}  # unless the user wants another


def write_model(
    name: str,
    form: str,
    path: Path,
    *,
    exporter: str = "dynamo",
    opset: int | None = None,
    dynamic: bool | None = None,
) -> str:
    """Write the model; return a description of the file."""
    for chatty in ("torch.utils._pytree", "torch.onnx"):
        logging.getLogger(chatty).setLevel(logging.ERROR)
    entry = find(name)
    if not path.absolute().parent.is_dir():
        raise DriftlineError(f"{path}: the folder {path.parent} does not exist.")
    if entry.form == "onnx":
        if form != "onnx":
            raise DriftlineError(f"The model {name} is an ONNX model from the start: export it with --as onnx.")
        model = build(name)[0]
        path.write_bytes(model.SerializeToString())
        return f"ONNX, opset {_opset(model)}, as its tool wrote it"
    from driftline.models import export

    opset = opset or OPSETS[exporter]
    if form == "onnx":
        _require_opset(exporter, opset)
    model = build(name)
    if form == "pt2":
        try:
            with _silenced():
                export.save_pt2(model, path)
        except Exception as error:
            raise _refused(f"torch.export cannot capture {name}", error) from error
        return "an archive of torch.export"
    dynamic = exporter == "torchscript" if dynamic is None else dynamic
    try:
        with _silenced():
            made = export.onnx_model(model, exporter, opset, dynamic=dynamic)
    except Exception as error:
        raise _refused(f"The {exporter} exporter cannot write {name} at opset {opset}", error) from error
    path.write_bytes(made.SerializeToString())
    written = _opset(made)
    instead = "" if written == opset else f" (the exporter could not convert it to {opset})"
    return f"ONNX, opset {written}{instead}, by torch.onnx ({exporter}), {'dynamic' if dynamic else 'static'} sizes"


def _require_opset(exporter: str, opset: int) -> None:
    """Raise early for opsets that the exporter would reject late, or replace silently by another opset."""
    import onnx
    import torch.onnx._constants as limits

    newest = onnx.defs.onnx_opset_version()
    if exporter == "torchscript":
        newest = min(newest, int(limits.ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET))
    oldest = int(limits.ONNX_MIN_OPSET)
    if not oldest <= opset <= newest:
        raise DriftlineError(f"--opset {opset}: the {exporter} exporter writes opsets {oldest} to {newest}.")


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Silence the exporters, which print whole graphs, partly from C++. The exception says what matters."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            for number in kept:
                os.dup2(nowhere.fileno(), number)
            yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)


def _refused(what: str, error: Exception) -> DriftlineError:
    cause = innermost(error)
    return DriftlineError(f"{what}: {type(cause).__name__}: {first_line(str(cause))}")


def _opset(model: Any) -> int:
    return next(int(imported.version) for imported in model.opset_import if imported.domain in ("", "ai.onnx"))
