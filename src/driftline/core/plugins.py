"""`--plugin file.py`: a file that registers backends (or generators, ...) when it is imported."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

from driftline.core.errors import DriftlineError
from driftline.core.text import first_line


def load_plugins(paths: Iterable[str]) -> None:
    """Import each file once."""
    for given in paths:
        path = Path(given).resolve()
        name = f"driftline_plugin_{path.stem}_{abs(hash(str(path))):x}"
        if name in sys.modules:
            continue
        if not path.is_file():
            raise DriftlineError(f"Plugin {given} does not exist; give the path of a Python file.")
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise DriftlineError(f"Plugin {given} is not a Python file; its name must end in .py.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except SyntaxError as error:
            del sys.modules[name]
            raise DriftlineError(f"Plugin {given} has a syntax error in line {error.lineno}: {error.msg}.") from error
        except Exception as error:
            del sys.modules[name]
            raise DriftlineError(
                f"Plugin {given} cannot be imported: {type(error).__name__}: {first_line(str(error))}."
            ) from error
