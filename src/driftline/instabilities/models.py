"""A folder of models: written by `driftline compose`, or the user's own ONNX and torch files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftline.checking.kinds import worker_for_framework
from driftline.core.errors import DriftlineError, InternalError
from driftline.core.handover import open_file, remove_folder
from driftline.core.output_place import make_folder
from driftline.core.private import write_private
from driftline.core.text import last_words, parse_json, to_json
from driftline.execute.pool import Pool
from driftline.instabilities.compose import Composition
from driftline.instabilities.requests import WRITE_MODELS, NamedGraph, WriteModelsRequest

METADATA = "metadata.json"
SCHEMA = 1
_BATCH = 40  # models that one job writes
MEANING = {"torch": "torch", "onnx": "onnx", "torchscript": "torch"}  # the framework that defines a program's results
FORMS = {".pt2": "torch", ".onnx": "onnx", ".pt": "torchscript"}


@dataclass(frozen=True)
class ModelFiles:
    """A model by name, with the programs that it is available as (`torch`, `onnx`, `torchscript`), spelled as for
    `check`."""

    name: str
    programs: dict[str, str]
    expression: str = ""
    operators: tuple[str, ...] = ()


def write_models(
    pool: Pool,
    folder: Path,
    compositions: Sequence[Composition],
    about: dict[str, Any],
    done: Callable[[int], None] = lambda count: None,
) -> Path:
    """Write the files of every model, replacing those of an earlier call. The metadata is written first and marked
    complete last, so that an interrupted call can be repeated and is recognised as incomplete."""
    make_folder(folder)
    path = folder / METADATA
    described = [_described(one) for one in compositions]
    _make_way(folder, [file for one in described for file in _files(one)])
    body = {"schema": SCHEMA, **about, "complete": False, "models": described}
    write_private(path, [to_json(body, indent=1).encode()])
    for start in range(0, len(compositions), _BATCH):
        part = compositions[start : start + _BATCH]
        _write_some(pool, folder, part)
        done(len(part))
    write_private(path, [to_json({**body, "complete": True}, indent=1).encode()])
    return path


def _make_way(folder: Path, coming: Sequence[str]) -> None:
    """Remove the files that an earlier call wrote, by its metadata. Raises an error rather than overwrite any other
    file."""
    path = folder / METADATA
    earlier = [file for one in _metadata(path)["models"] for file in _files(one)] if path.is_file() else []
    for name in coming:
        if name not in earlier and (folder / name).exists():
            raise DriftlineError(
                f"--out {folder}: {name} is there, and `driftline compose` did not write it; name another folder."
            )
    for name in earlier:
        (folder / name).unlink(missing_ok=True)


def _files(described: Any) -> list[str]:
    """Return the file names of a model. Raises ValueError if a file is not directly in the folder."""
    found = [str(file).removesuffix(":program") for file in described["files"].values()]
    if any(Path(name).name != name or name in ("", "..") for name in (*found, str(described["name"]))):
        raise ValueError("a file outside of the folder")
    return found


def _write_some(pool: Pool, folder: Path, compositions: Sequence[Composition]) -> None:
    scratch = pool.workspace.job_folder()
    models = tuple(NamedGraph(one.name, one.graph) for one in compositions)
    request = WriteModelsRequest(models, scratch)
    report = pool.run(worker_for_framework("torch"), WRITE_MODELS, request, timeout=300.0)
    if report.answer is None:
        raise InternalError(f"writing models ended with {report.ending}: {last_words(report.log)}")
    for model, problem in zip(models, report.answer.problems, strict=True):
        if problem:
            raise InternalError(f"{model.name} could not be written: {problem}")
    for path in scratch.iterdir():
        with open_file(path) as given, open(folder / path.name, "wb") as made:
            shutil.copyfileobj(given, made)
    remove_folder(scratch)


def _described(one: Composition) -> dict[str, Any]:
    types = [leaf.type for leaf in one.graph.leaves]
    return {
        "name": one.name,
        "expression": one.expression,
        "operators": list(one.operators),
        "arrangement": str(one.arrangement),
        "inputs": [
            {"name": f"x{number}", "dtype": kind.dtype, "shape": list(kind.shape)} for number, kind in enumerate(types)
        ],
        "files": {"source": f"{one.name}.py:program", "torchscript": f"{one.name}.pt", "onnx": f"{one.name}.onnx"},
    }


def read_models(folder: Path) -> list[ModelFiles]:
    """Read the models of a folder: from its metadata if `driftline compose` wrote it, else every .onnx, .pt2 and .pt
    file."""
    if not folder.is_dir():
        raise DriftlineError(f"--models {folder}: there is no such folder. Make one with `driftline compose`.")
    path = folder / METADATA
    if path.is_file():
        return _composed(folder, path)
    found: dict[str, dict[str, str]] = {}
    for file in sorted(folder.iterdir()):
        if file.suffix in FORMS and file.is_file():
            found.setdefault(file.stem, {})[FORMS[file.suffix]] = str(file)
    if not found:
        raise DriftlineError(
            f"--models {folder}: there are no models. It takes what `driftline compose` writes, or .onnx, .pt2"
            " and .pt (TorchScript) files."
        )
    return [ModelFiles(name, programs) for name, programs in found.items()]


def _composed(folder: Path, path: Path) -> list[ModelFiles]:
    body = _metadata(path)
    if not body.get("complete", True):
        raise DriftlineError(
            f"--models {folder}: composing was interrupted, and models are missing; compose them again."
        )
    return [_read(folder, one) for one in body["models"]]


def _metadata(path: Path) -> Any:
    """Read and validate the metadata of a composed folder."""
    try:
        body = parse_json(path.read_bytes())
        body.get("complete")
        for one in body["models"]:
            _files(one)
            _read(path.parent, one)
        return body
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DriftlineError(
            f"{path} is not what `driftline compose` writes ({type(error).__name__}). Compose the models into another"
            " folder, or remove it to take the .onnx, .pt2 and .pt files of this one."
        ) from error


def _read(folder: Path, one: Any) -> ModelFiles:
    files = one["files"]
    programs = {"torch": files["source"], "onnx": files["onnx"], "torchscript": files["torchscript"]}
    placed = {form: str(folder / text) for form, text in programs.items()}
    return ModelFiles(str(one["name"]), placed, str(one["expression"]), tuple(map(str, one["operators"])))
