"""Turns a `source` bundle into a live program: writes its files, imports the entry file, calls the factory.

Runs in a worker: a user's file may raise, hang or crash.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.program import SourceBundle
from driftline.core.scratch import scratch_folder
from driftline.core.text import did_you_mean, first_line
from driftline.programs.live import LiveProgram

# The framework of a file, guessed from its imports before it runs: it decides which worker is used.
_IMPORTS = (("tensorflow", ("tensorflow", "keras")), ("jax", ("jax",)))

_MODULE = "driftline_program_"  # how the names of the modules begin as which programs are imported


def guess_framework(text: str) -> str:
    """Guess torch, tensorflow, jax or onnx from the import lines; torch if there are none (the factory's result decides
    in the end)."""
    heads = {
        words[1].split(".")[0].rstrip(",")
        for line in text.splitlines()
        if len(words := line.split()) > 1 and words[0] in ("import", "from")
    }
    if "torch" in heads:
        return "torch"
    for framework, packages in _IMPORTS:
        if heads & set(packages):
            return framework
    return "onnx" if "onnx" in heads else "torch"


def load_source(bundle: SourceBundle, origin: str, seed: int) -> Any:
    """Return the factory's result `(callable_or_model, inputs)`, with all generators seeded before the import and
    before the call."""
    seed_everything(seed)
    module = _import_entry(bundle, _place(bundle, origin))
    factory = getattr(module, bundle.entry_name, None)
    if not callable(factory):
        known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise DriftlineError(
            f"{bundle.entry_file} has no callable named {bundle.entry_name!r}.{did_you_mean(bundle.entry_name, known)}"
        )
    if hasattr(factory, "forward"):
        raise DriftlineError(
            f"{bundle.entry_name!r} in {bundle.entry_file} is a module; give a function without arguments that returns"
            " it with its example inputs, as in: def program(): return model, (torch.zeros(2, 3),)."
        )
    seed_everything(seed)
    try:
        made = factory()
    except Exception as error:
        raise DriftlineError(
            f"The factory {bundle.entry_name!r} in {bundle.entry_file} raised {type(error).__name__}:"
            f" {first_line(str(error))}. {_advice(error)}"
        ) from error
    if not isinstance(made, tuple) or len(made) != 2:
        raise DriftlineError(
            f"The factory {bundle.entry_name!r} in {bundle.entry_file} must return (callable, inputs),"
            f" not {type(made).__name__}."
        )
    return made


def _advice(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.ENOSYS):
        return (
            "Workers have no network and write to their scratch only: let it load what lies on the disk, name folders"
            " to write to in DRIFTLINE_WRITABLE, or set DRIFTLINE_SANDBOX=off."
        )
    return "Call it by itself to debug it."


def imported_siblings(bundle: SourceBundle, origin: str) -> dict[str, str]:
    """Return the text of the modules beside the user's file that it imported: they are part of the program."""
    base = Path(origin).resolve().parent
    found: dict[str, str] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(".py") or module.__name__.startswith("driftline"):
            continue
        # torch gives some modules a made-up file name, which seems to lie in the current folder
        with contextlib.suppress(OSError):  # which may be too deep for a name
            path = Path(file).resolve()
            if path.is_file() and path.is_relative_to(base) and "site-packages" not in path.parts:
                found[path.relative_to(base).as_posix()] = path.read_text()
    found.pop(bundle.entry_file, None)
    return found


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)
    if tensorflow := sys.modules.get("tensorflow"):
        tensorflow.random.set_seed(seed)


def _place(bundle: SourceBundle, origin: str) -> Path:
    """Return the folder to import from: the user's own if every file there is unchanged, else a copy."""
    if origin:
        home = Path(origin).resolve().parent
        if all((home / name).is_file() and (home / name).read_text() == text for name, text in bundle.files.items()):
            return home
    folder = scratch_folder(f"program-{hashlib.sha256(bundle.dump()).hexdigest()[:16]}")
    for name, text in bundle.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def _import_entry(bundle: SourceBundle, home: Path) -> ModuleType:
    path = home / bundle.entry_file
    if len(bundle.files) > 1 or bundle.entry_file != path.name or home.name[:8] != "program-":
        sys.path.insert(0, str(home))  # it may import modules beside it
        _forget_other_siblings(bundle, home)
    _unregister_operators()
    name = f"{_MODULE}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        raise DriftlineError(
            f"{bundle.entry_file} cannot be imported: {type(error).__name__}: {first_line(str(error))}."
            " Run it with python to see the whole error."
        ) from error
    return module


def _unregister_operators() -> None:
    """Unregister the operators that earlier programs of this worker defined with `torch.library.Library`: torch refuses
    to define a namespace twice, as loading the same program again would."""
    library = sys.modules.get("torch.library")
    for name, module in list(sys.modules.items()):
        if library and name.startswith(_MODULE):
            for value in list(vars(module).values()):
                if isinstance(value, library.Library):
                    value._destroy()


def _forget_other_siblings(bundle: SourceBundle, home: Path) -> None:
    """Unload modules of other programs with the same names as files of this one: a worker serves many programs."""
    for file in bundle.files:
        name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        loaded = getattr(sys.modules.get(name), "__file__", None)
        if loaded and Path(loaded).resolve() != (home / file).resolve():
            del sys.modules[name]
    importlib.invalidate_caches()


def identify(model: Any) -> str:
    """Return the framework of the object that a factory returned."""
    for cls in type(model).__mro__:
        root = cls.__module__.split(".")[0]
        if root == "onnx":
            return "onnx"
        if root in ("torch", "transformers"):
            return "torch"
        if root in ("tensorflow", "keras"):
            return "tensorflow"
        if root in ("jax", "jaxlib", "flax"):
            return "jax"
    if isinstance(model, bytes):
        return "onnx"
    module = sys.modules.get(getattr(model, "__module__", "") or "")
    if module and getattr(module, "__file__", None):
        return guess_framework(Path(str(module.__file__)).read_text())
    return "torch"


def live_from_source(bundle: SourceBundle, origin: str, seed: int) -> LiveProgram:
    model, inputs = load_source(bundle, origin, seed)
    framework = identify(model)
    if framework != "onnx" and not callable(model):
        raise DriftlineError(
            f"The factory {bundle.entry_name!r} in {bundle.entry_file} must return a callable first,"
            f" not {type(model).__name__}."
        )
    return LiveProgram.bind(framework, model, inputs)
