"""`--plugin file.py`: a file that registers backends (or generators, ...) when it is imported.

A store names the plugins that a case needs, but anybody may have written the store, so its plugins are not imported.
`load_plugins` imports files that the user named in this run; `approved` finds among these the plugins that a store
names.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from driftline.core.errors import DriftlineError
from driftline.core.quoting import one_line, shell
from driftline.core.text import first_line

_given: dict[str, None] = {}  # resolved paths of the loaded files, in order
_typed: dict[str, None] = {}  # of these, the files given to the current command
_loading = threading.RLock()  # a thread that needs a file waits while another thread imports it


def approved(stored: Iterable[str], what: str) -> tuple[str, ...]:
    """Return, for each plugin that a store names, the file that the user gave: the same path, or one of the same name
    if it has moved. Raises DriftlineError if there is none. `what`: who needs the plugins, for the message."""
    by_name = {Path(path).name: path for path in _given}
    found = []
    for path in stored:
        place = str(Path(path).resolve())
        chosen = place if place in _given else by_name.get(Path(path).name)
        if chosen is None:
            raise DriftlineError(
                f"{one_line(what)} needs the plugin {one_line(path)}. It is Python code that only the store names, and"
                f" was not loaded; if you trust the file, add {shell(['--plugin', path])}."
            )
        found.append(chosen)
    return tuple(dict.fromkeys(found))


def plugin_words() -> list[str]:
    """Return `--plugin FILE` for each file of this run, for commands that are printed."""
    return [word for path in _typed for word in ("--plugin", path)]


@contextmanager
def one_command() -> Iterator[None]:
    """Mark the plugins that are loaded inside the block as those typed with the current command."""
    _typed.clear()
    try:
        yield
    finally:
        _typed.clear()


def load_plugins(paths: Iterable[str]) -> None:
    """Import each file once. The files must be named by the user in this run, since their code is executed."""
    for given in paths:
        with _loading:
            _load(given)


def _load(given: str) -> None:
    path = Path(given).resolve()
    _given[str(path)] = None
    _typed[str(path)] = None
    name = f"driftline_plugin_{path.stem}_{abs(hash(str(path))):x}"
    if name in sys.modules:
        return
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
    except SystemExit as error:
        del sys.modules[name]
        raise DriftlineError(
            f"Plugin {given} ends the process when it is imported (sys.exit({error.code!r})); remove that call, or"
            ' put it under if __name__ == "__main__".'
        ) from error
    except Exception as error:
        del sys.modules[name]
        raise DriftlineError(
            f"Plugin {given} cannot be imported: {type(error).__name__}: {first_line(str(error))}."
        ) from error
