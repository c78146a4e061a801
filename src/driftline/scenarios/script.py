"""A script that the user names, and the reasons why a script cannot be judged."""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from driftline.core.errors import DriftlineError
from driftline.core.files import BIG
from driftline.scenarios.requests import Recorded, Trouble

# A script that inspects the compiler may act on what it finds.
_LOOKS_INSIDE = re.compile(
    r"\bcounters\b|CompileCounter|frame_count|set_logs|\bexplain\(|_dynamo\.utils|compile_times|op_count|cache_size"
)
_ASKS = re.compile(r"\bis_(dynamo_)?compiling\b")
_COMMENT = re.compile(r"#.*")


@dataclass(frozen=True)
class UserScript:
    """The text of a Python file that calls `torch.compile` itself."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def looks_inside(self) -> bool:
        """True if the script reads the compiler's counters or logs."""
        return bool(_LOOKS_INSIDE.search(self._code))

    @property
    def asks(self) -> bool:
        """True if the script asks whether it is being compiled."""
        return bool(_ASKS.search(self._code))

    @property
    def may_use_inductor(self) -> bool:
        """True unless every call of a function named `compile` in the script names another backend."""
        calls = [node for node in ast.walk(ast.parse(self.text)) if isinstance(node, ast.Call)]
        named = [_backend_of(call) for call in calls if _called(call.func) == "compile"]
        return not named or any(backend in ("", "inductor") for backend in named)

    @property
    def _code(self) -> str:
        return _COMMENT.sub("", self.text)


def _called(function: ast.expr) -> str:
    """Return the last part of the name of a called function."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _backend_of(call: ast.Call) -> str:
    """Return the backend that a call of `compile` names: empty if there is none, `...` if it is not a literal."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "backend"]
    if not given:
        return ""
    return str(given[0].value) if isinstance(given[0], ast.Constant) else "..."


def read_script(path: Path) -> UserScript:
    """Read a script. Raises `DriftlineError` if the file is not valid Python."""
    try:
        if path.stat().st_size > BIG:
            raise DriftlineError(f"{path} is no script: it has {path.stat().st_size >> 20} MiB.")
        text = path.read_text()
        compile(text, str(path), "exec")
    except UnicodeDecodeError as error:
        raise DriftlineError(f"{path} is not a Python file: it is not text.") from error
    except OSError as error:
        raise DriftlineError(f"{path} cannot be read: {error.strerror}.") from error
    except SyntaxError as error:
        raise DriftlineError(f"{path} has a syntax error in line {error.lineno}: {error.msg}.") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise DriftlineError(f"{path} cannot be read as Python: {error or type(error).__name__}.") from error
    return UserScript(path.resolve(), text)


def require_recordable(script: UserScript, recorded: Recorded) -> None:
    """Raise `DriftlineError` if the script needs something that a recorded script cannot have, such as standard
    input."""
    if recorded.trouble is None:
        return
    told = {
        Trouble.STDIN: "reads its standard input; a script is judged without one. Write the input into the script",
        Trouble.PROCESS: f"starts a process ({recorded.detail}); a script is judged in one process, without others",
        Trouble.ARGUMENTS: "needs arguments on its command line; a script is judged without any. Write them into it",
        Trouble.LOADING: f"cannot be compiled by Python: {recorded.detail}",
    }[recorded.trouble]
    raise DriftlineError(f"{script.name} {told}.")
