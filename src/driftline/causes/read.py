"""Read the file of a cause. Files are data: nothing in them is run here. Mistakes raise one sentence that says what to
change.
"""

from __future__ import annotations

import ast
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from driftline.causes.cause import OF_VALUES, Cause, Experiment, Neighbour, Witness
from driftline.causes.match import SPACINGS
from driftline.causes.names import known_names
from driftline.causes.sighting import machine_name
from driftline.core.errors import DriftlineError
from driftline.core.evidence import Fault, InputClass, Number, Region, number
from driftline.core.execution import Stage
from driftline.core.spelling import spelled_alike
from driftline.core.target import Target
from driftline.core.tensors import DTYPES
from driftline.core.text import did_you_mean
from driftline.core.verdict import Kind
from driftline.oracle.arithmetic import POLICIES

E = TypeVar("E", bound=StrEnum)
KINDS = tuple(dict.fromkeys((*map(str, Kind), "reduced-precision")))
MOST = 256 << 10  # bytes of a file


def read_cause(path: Path, folder: str = "") -> Cause:
    """Return the cause in a file. `folder`: the name of the folder, which must be that of the compiler."""
    try:
        size = path.stat().st_size
        if size > MOST:
            raise DriftlineError(
                f"{path}: a cause is a small file, at most {MOST >> 10} KiB; this one has {size:,} bytes."
            )
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DriftlineError(f"{path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise DriftlineError(f"{path} is not valid TOML: {error}.") from error
    return _Reader(path, table).cause(folder or path.parent.name)


class _Reader:
    """Reads one file. Every method raises a sentence that says what to change."""

    def __init__(self, path: Path, table: Mapping[str, Any]) -> None:
        self._path = path
        self._table = table
        self._readers: dict[str, Callable[[str, Any], Any]] = {
            "title": self._text, "compiler": self._text, "seen": self._texts, "fixed": self._text,
            "machines": self._texts, "kinds": self._of(KINDS), "stages": self._of(map(str, Stage)),
            "operators": self._texts, "dtypes": self._of(DTYPES), "faults": self._of(Fault),
            "narrower": self._one_of(DTYPES), "rounded_to": self._one_of(SPACINGS), "off_by": self._range,
            "empty": self._flag, "later_call": self._flag, "settings": self._settings,
            "regions": self._of(Region), "got": self._numbers,
            "expected": self._numbers, "needs": self._of(InputClass), "policies": self._of(POLICIES),
            "exception": self._text, "message": self._pattern, "signal": self._text, "options": self._options,
            "experiment": self._experiment, "reported": self._text, "debatable": self._text,
            "accepted": self._flag, "example": self._text, "fails_on": self._targets, "passes_on": self._targets,
            "witness": self._program, "neighbour": self._program,
        }  # fmt: skip

    def cause(self, folder: str) -> Cause:
        """Return the cause of the file. `folder`: the folder's name, which must be that of the compiler."""
        told = {key: self._read(key, value) for key, value in self._table.items()}
        for key in ("title", "compiler", "kinds", "witness"):
            if not told.get(key):
                raise self._wrong(f"{key} is missing")
        if told["compiler"].replace(":", "-") != folder:
            raise self._wrong(
                f"compiler is {told['compiler']!r}, but the file lies in the folder {folder!r}; they must agree"
            )
        # A drift is a wrong value that is seen over many elements: bugs do not tell them apart.
        told["kinds"] = tuple(dict.fromkeys("wrong-value" if kind == "bias" else kind for kind in told["kinds"]))
        spelled = told.pop("operators", ())
        witness, neighbour = self._programs(told.pop("witness"), told.pop("neighbour", None), told["compiler"])
        found = Cause(
            id=f"{folder}/{self._path.stem}",
            path=self._path,
            operators=tuple(self._together(name) for name in spelled),
            spelled=spelled,
            faults=tuple(Fault(one) for one in told.pop("faults", ())),
            regions=tuple(Region(one) for one in told.pop("regions", ())),
            needs=tuple(InputClass(one) for one in told.pop("needs", ())),
            machines=tuple(machine_name(one) for one in told.pop("machines", ())),
            witness=witness,
            neighbour=neighbour,
            **told,
        )
        if (found.fails_on or found.passes_on) and not found.example:
            raise self._wrong('fails_on and passes_on tell of an example; name its file, as in example = "name.py"')
        self._require_narrow(found)
        return found

    def _programs(
        self, witness: dict[str, str], beside: dict[str, str] | None, compiler: str
    ) -> tuple[Witness, Neighbour | None]:
        """Return the program that shows the cause, and the one beside it that the cause does not explain."""
        if not witness.get("program"):
            raise self._wrong("witness.program is missing: the program that shows the cause")
        if witness.get("plant"):
            raise self._wrong("witness.plant: a witness must fail by itself; only a neighbour may have a planted fault")
        shown = Witness(witness.get("target") or compiler, witness["program"])
        if beside is None:
            return shown, None
        target, program = beside.get("target") or shown.target, beside.get("program") or shown.program
        return shown, Neighbour(target, program, beside.get("plant", ""))

    def _require_narrow(self, cause: Cause) -> None:
        """Raise for a cause that would explain any similar failure, since it would hide new bugs; see
        docs/how-to/causes.md.
        """
        kinds = set(cause.kinds)
        if kinds & set(OF_VALUES) and not cause.telling:
            raise self._wrong(
                "it would explain any wrong number there; say what is special about this one: faults without"
                " finite-value, narrower, rounded_to, off_by, empty, later_call, settings, got, expected, regions"
                " (tail-of-axis, head-of-axis, whole-slices), needs, policies, or"
                " an experiment that passes_with an option, passes_without a class of inputs, or, of float64, passes_in"
                " float32"
            )
        if "error" in kinds and not (cause.message or cause.exception):
            raise self._wrong("a cause of errors needs the compiler's message, or the class of the exception")
        if "crash" in kinds and not (cause.signal or cause.operators):
            raise self._wrong("a cause of crashes needs a signal or operators")
        if not cause.operators and not (cause.message or cause.telling or cause.signal):
            raise self._wrong("without operators it needs a message or evidence that is narrow")

    # -- fields --------------------------------------------------------------------------------------------------------

    def _read(self, key: str, value: Any) -> Any:
        if key not in self._readers:
            hint = did_you_mean(key, self._readers)
            raise self._wrong(f"there is no field {key!r}.{hint} Known: {', '.join(self._readers)}", stop="")
        return self._readers[key](key, value)

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self._wrong(f'{key} must be text, as in {key} = "..."')
        return value.strip()

    def _flag(self, key: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self._wrong(f"{key} must be true or false")
        return value

    def _texts(self, key: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self._wrong(f'{key} must be a list of names, as in {key} = ["...", "..."]')
        return tuple(value)

    def _targets(self, key: str, value: Any) -> tuple[str, ...]:
        found = self._texts(key, value)
        for one in found:
            self._require_target(key, one)
        return found

    def _numbers(self, key: str, value: Any) -> tuple[Number, ...]:
        good = isinstance(value, list) and all(isinstance(one, (int, float)) for one in value)
        if not good:
            raise self._wrong(f"{key} must be a list of numbers, as in {key} = [0, -1.5, nan, inf]")
        return tuple(number(one) for one in value)

    def _settings(self, key: str, value: Any) -> tuple[str, ...]:
        found = self._texts(key, value)
        for one in found:
            if not re.fullmatch(r"[A-Za-z]\w*(=[^\s=]+)?", one):
                raise self._wrong(f"{key}: {one!r} is not a setting of an operator, as in ceil_mode=1, rank=3 or P")
        return found

    def _range(self, key: str, value: Any) -> tuple[Number, ...]:
        found = self._numbers(key, value)
        if len(found) != 2 or not 0 <= found[0] <= found[1] < math.inf:
            raise self._wrong(f"{key} must be the least and the largest distance, as in {key} = [0, 1e-7]")
        return found

    def _of(self, known: Iterable[str]) -> Callable[[str, Any], tuple[str, ...]]:
        names = tuple(str(one) for one in known)

        def read(key: str, value: Any) -> tuple[str, ...]:
            found = self._texts(key, value)
            for one in found:
                self._require_known(key, one, names)
            return found

        return read

    def _one_of(self, known: Iterable[str]) -> Callable[[str, Any], str]:
        names = tuple(str(one) for one in known)

        def read(key: str, value: Any) -> str:
            found = self._text(key, value)
            if found:
                self._require_known(key, found, names)
            return found

        return read

    def _require_known(self, key: str, one: str, names: tuple[str, ...]) -> None:
        if one not in names:
            raise self._wrong(
                f"{key}: there is no {one!r}.{did_you_mean(one, names)} Known: {', '.join(names)}", stop=""
            )

    def _pattern(self, key: str, value: Any) -> str:
        text = self._text(key, value)
        try:
            pattern = re.compile(text)
        except re.error as error:
            raise self._wrong(f"{key} is not a regular expression: {error}") from error
        if text and (pattern.search("") or pattern.search("x")):
            raise self._wrong(f"{key} matches any message; write some words of the compiler's own")
        return text

    def _together(self, name: str) -> frozenset[str]:
        parts = {part.strip() for part in name.split("+")}
        found = spelled_alike(parts)
        if len(found) != len(parts):
            raise self._wrong(
                f"operators: {name!r} is not the name of an operator, as in Abs or torch's abs; join operators that"
                " must be there together with '+'"
            )
        for part in parts:
            self._require_operator(part)
        return found

    def _require_operator(self, name: str) -> None:
        """Raise for a name that no failure can have. Names of other libraries, as in my_lib::op, are not looked up."""
        if "::" not in name and not spelled_alike([name]) <= known_names().keys():
            hint = did_you_mean(name, known_names().values())
            raise self._wrong(
                f"operators: there is no operator {name!r} in ONNX, torch, TensorFlow, JAX or Driftline's table.{hint}"
                " Write library::name for an operator of another library"
            )

    def _options(self, key: str, value: Any) -> tuple[tuple[str, str], ...]:
        return tuple(self._option(key, one) for one in self._texts(key, value))

    def _option(self, key: str, text: str) -> tuple[str, str]:
        name, _, chosen = text.partition("=")
        if not name or not chosen:
            raise self._wrong(f"{key}: {text!r} is not an option of a target; write name=value, as in freezing=true")
        return name, chosen

    def _experiment(self, key: str, value: Any) -> Experiment:
        if not isinstance(value, dict) or not value:
            raise self._wrong(f'{key} must be a table, as in {key} = {{ passes_with = "opt=off" }}')
        known = ("passes_with", "passes_in", "passes_without", "passes_unset")
        told: dict[str, str] = {}
        for name, given in value.items():
            if name not in known:
                raise self._wrong(
                    f"{key}: there is no {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}", stop=""
                )
            told[name] = self._text(f"{key}.{name}", given)
        if told.get("passes_with"):
            self._option(f"{key}.passes_with", told["passes_with"])
        self._one_of(DTYPES)(f"{key}.passes_in", told.get("passes_in", ""))
        self._one_of(InputClass)(f"{key}.passes_without", told.get("passes_without", ""))
        return Experiment(**told)

    def _program(self, key: str, value: Any) -> dict[str, str]:
        known = ("target", "program", "plant")
        if not isinstance(value, dict):
            raise self._wrong(f"{key} must be a table with a program: [{key}]")
        for name in value:
            if name not in known:
                raise self._wrong(
                    f"{key}: there is no {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}", stop=""
                )
        told = {name: self._text(f"{key}.{name}", given) for name, given in value.items()}
        if told.get("target"):
            self._require_target(f"{key}.target", told["target"])
        if told.get("program"):
            told["program"] += "\n"
            self._require_factory(key, told["program"])
        return told

    def _require_target(self, key: str, text: str) -> None:
        try:
            Target.parse(text)
        except DriftlineError as error:
            raise self._wrong(f"{key}: {error}", stop="") from error

    def _require_factory(self, key: str, text: str) -> None:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError) as error:
            line = f" in line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else ""
            raise self._wrong(f"{key}.program has a syntax error{line}") from error
        if not any(isinstance(node, ast.FunctionDef) and node.name == "program" for node in tree.body):
            raise self._wrong(f"{key}.program needs a function `program` that returns (callable, inputs)")

    def _wrong(self, what: str, stop: str = ".") -> DriftlineError:
        return DriftlineError(f"{self._path}: {what}{stop}")
