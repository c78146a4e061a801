"""Converts TorchScript files, as `torch.jit.save` writes them, to torch.export archives with the file inside.

So every compiler of torch programs can run it, and TorchScript itself runs the user's own file. A file is read in a
worker only, by `torch.jit.load`, which runs no Python: its code is in TorchScript's own language, and its data are read
by torch's C++ reader.
"""

from __future__ import annotations

import base64
import binascii
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.tensors import Shape
from driftline.core.text import did_you_mean, first_line

ORIGINAL = "torchscript.base64"  # an archive's extra files are text


def require_torchscript(path: Path, name: str) -> None:
    """Raise for other kinds of files: people give the ending .pt to whatever torch saves."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DriftlineError(
            f"{name} is not a TorchScript file, which is a ZIP archive. Write it again with torch.jit.save."
        ) from error
    if not any(part.partition("/")[2].startswith("code/") for part in parts):
        raise DriftlineError(
            f"{name} is not a TorchScript file: it has no code, as what torch.save writes. Write the model with"
            " torch.jit.save or torch.export.save, or give file.py:name, where `name` builds it and loads the weights."
        )


def embedded(path: Path) -> bytes | None:
    """Return the TorchScript file that an archive was made from, or None."""
    with zipfile.ZipFile(path) as archive:
        for part in archive.namelist():
            if part.endswith(f"/extra/{ORIGINAL}"):
                return base64.b64decode(archive.read(part))
    return None


def decoded(part: bytes) -> bytes:
    """Decode the base64 text of a file inside an archive; empty for anything else."""
    try:
        return base64.b64decode(part, validate=True)
    except binascii.Error:
        return b""


def write_archive(path: Path, name: str, shapes: Mapping[str, Shape], seed: int, output: Path) -> None:
    """Convert a TorchScript file to an archive. Its inputs have the given shapes, else those it was traced with."""
    import torch

    try:
        module = torch.jit.load(str(path), map_location="cpu", _restore_shapes=True)
    except Exception as error:
        raise DriftlineError(
            f"{name} is not a TorchScript file that this torch can load: {type(error).__name__}:"
            f" {first_line(str(error))}. Write it again with torch.jit.save."
        ) from error
    example = _example(module, name, shapes, seed)
    exported = _exported(module, name, example)
    _require_same(module, exported, name, example)
    original = base64.b64encode(path.read_bytes()).decode()
    torch.export.save(exported, str(output), extra_files={ORIGINAL: original})


def _example(module: Any, name: str, shapes: Mapping[str, Shape], seed: int) -> tuple[Any, ...]:
    """Return example tensors of the known shapes, named like the parameters in the graph."""
    import torch

    if not hasattr(module, "forward"):
        raise DriftlineError(f"{name} has no forward to call. Write a module that has one with torch.jit.save.")
    values = list(module.graph.inputs())[1:]
    names = [argument.name for argument in module.forward.schema.arguments][1:]
    for asked in shapes:
        if asked not in names:
            raise DriftlineError(
                f"--shape {asked}: the program has no input of that name.{did_you_mean(asked, names)}"
                f" It takes: {', '.join(names) or 'no inputs'}."
            )
    generator = torch.Generator().manual_seed(seed)
    made, unknown = [], []
    for own, value in zip(names, values, strict=True):
        if value.type().kind() != "TensorType":
            raise DriftlineError(
                f"The input {own!r} of {name} is no tensor ({value.type()}), and a TorchScript file does not say what"
                " it is to be. Give file.py:name, where `name` returns (torch.jit.load(file), inputs)."
            )
        value.setDebugName(own)  # the converter takes the names from here
        shape = shapes.get(own, value.type().sizes())
        if shape is None:
            unknown.append(own)
            continue
        dtype = value.type().dtype() or torch.float32
        drawn = torch.rand(tuple(shape), generator=generator)
        made.append(drawn.to(dtype))
    if unknown:
        several = " ".join(f"--shape {own}=AxB" for own in unknown)
        raise DriftlineError(
            f"{name} does not say which shapes it takes, as scripted modules do not: give {several} (float32), or save"
            " a module that was traced."
        )
    return tuple(made)


def _exported(module: Any, name: str, example: Sequence[Any]) -> Any:
    import torch
    from torch._export.converter import TS2EPConverter

    try:
        with torch.no_grad():
            results = torch.utils._pytree.tree_leaves(module(*(tensor.clone() for tensor in example)))
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise DriftlineError(
            f"{name} does not run on inputs of these shapes: {first_line(lines[-1] if lines else '')}."
            " Give others with --shape."
        ) from error
    for result in results:
        if not isinstance(result, (torch.Tensor, bool, int, float, complex, NoneType)):
            raise DriftlineError(
                f"{name} returns {first_line(repr(result), 80)}, which is neither a tensor nor a number and cannot be"
                " compared. Save a module that returns tensors."
            )
    try:
        with torch.no_grad():
            return TS2EPConverter(module, tuple(example)).convert()
    except Exception as error:
        raise DriftlineError(
            f"{name} cannot be converted to a torch.export program, which all compilers start from"
            f" (TS2EPConverter: {type(error).__name__}: {first_line(str(error))}). Give the model that it was made"
            " from."
        ) from error


def _require_same(module: Any, exported: Any, name: str, example: Sequence[Any]) -> None:
    """Raise unless the file gives the same results each time, and the converted program gives them too: neither
    randomness nor mistakes of the converter must be blamed on a compiler."""
    import torch

    with torch.no_grad():
        first, again, converted = (
            torch.utils._pytree.tree_leaves(run(*(tensor.clone() for tensor in example)))
            for run in (module, module, exported.module())
        )

    def same(one: Sequence[Any], other: Sequence[Any]) -> bool:
        try:
            torch.testing.assert_close(list(one), list(other), rtol=1e-3, atol=1e-3, equal_nan=True)
        except AssertionError:
            return False
        return True

    if not same(first, again):
        raise DriftlineError(
            f"{name} gives other results each time, as in training mode: call eval() before torch.jit.save."
        )
    if not same(first, converted):
        raise DriftlineError(
            f"{name} means something else after TS2EPConverter of torch has converted it to torch.export; nothing can"
            " be compared. Give the model that it was made from."
        )


def load_embedded(data: bytes) -> Any:
    import torch

    return torch.jit.load(io.BytesIO(data), map_location="cpu")
