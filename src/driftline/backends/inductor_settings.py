"""Makes every name of `torch._inductor.config` an option of a target: names, types and vector widths.

The names are read from the source of the configuration: importing torch takes seconds, and the parent process never
imports it.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from driftline.backends.base import Options
from driftline.backends.inductor_options import value_of
from driftline.core.errors import DriftlineError
from driftline.core.processor import X86, Processor
from driftline.core.target import Target
from driftline.core.text import did_you_mean

SETTINGS = r"[A-Za-z_]\w*(\.\w+)*"
SETTINGS_WORDS = "Every name of torch._inductor.config is an option, too."
_TYPES = {"bool": bool, "int": int, "float": float, "str": str}
_WRAPPERS = {"None", "Optional", "Union"}


def check_config_names(backend: str, known: Mapping[str, object], settings: Options, target: str) -> None:
    """Raise for a setting that is no name of Inductor's configuration, or has the wrong type. Targets of another torch
    release are skipped: that release checks the names when it compiles."""
    if Target.parse(target).version:
        return
    names = config_names()
    for key, text in settings.items():
        if key not in names:
            raise DriftlineError(
                f"Target {target!r}: {backend} has no option {key!r}.{did_you_mean(key, [*known, *names])} It has:"
                f" {', '.join(known)}, device, arithmetic, and every name of torch._inductor.config."
            )
        if not _fits(names[key], value_of(text)):
            raise DriftlineError(
                f"Target {target!r}: torch._inductor.config.{key} must be {names[key]}, not {value_of(text)!r}."
            )


def check_settings_here(settings: Options) -> None:
    """Check in a worker that its own torch has these settings."""
    from torch._inductor import config

    known = config.shallow_copy_dict()
    for name in settings:
        if name not in known:
            raise DriftlineError(f"torch._inductor.config has no {name!r}.{did_you_mean(name, known)}")


def vector_widths(processor: Processor) -> list[Options]:
    """Return options for code without vectors, and with vectors of each width that this processor supports."""
    wide = {"256": ("avx2", "fma"), "512": ("avx512f", "avx512dq", "avx512vl", "avx512bw", "fma")}
    if processor.machine != X86:
        wide = {"128": ("asimd",), "256": ("sve", "bf16")}
    return [{"simdlen": width} for width, needed in {"1": (), **wide}.items() if processor.has(*needed)]


@cache
def config_names() -> dict[str, str]:
    """Return the names of Inductor's configuration in this environment with their types, where declared; empty if the
    configuration cannot be read."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return {}
    source = Path(found.origin).with_name("_inductor") / "config.py"
    try:
        tree = ast.parse(source.read_text())
    except (OSError, SyntaxError):
        return {}
    return dict(_assigned(tree.body, ""))


def _assigned(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the names that statements assign, with their types. Names inside a class are prefixed with the class's name
    and include those of its bases."""
    classes = {statement.name: statement for statement in body if isinstance(statement, ast.ClassDef)}
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            bases = [classes[base.id] for base in statement.bases if isinstance(base, ast.Name) and base.id in classes]
            for each in (*bases, statement):
                yield from _assigned(each.body, f"{prefix}{statement.name}.")
        elif isinstance(statement, (ast.If, ast.Try)):
            yield from _assigned([*statement.body, *statement.orelse], prefix)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield f"{prefix}{statement.target.id}", ast.unparse(statement.annotation)
        elif isinstance(statement, ast.Assign):
            kind = _kind_of(statement.value)
            yield from ((f"{prefix}{name.id}", kind) for name in statement.targets if isinstance(name, ast.Name))


def _kind_of(value: ast.expr) -> str:
    """Return the type of a setting without an annotation: that of its constant, or bool for a comparison."""
    if isinstance(value, ast.Compare):
        return "bool"
    kind = type(value.value).__name__ if isinstance(value, ast.Constant) else ""
    return "" if kind == "NoneType" else kind


def _fits(kind: str, value: object) -> bool:
    """True if the value has the type. Types beyond a choice of plain ones are left to Inductor."""
    if kind.startswith("Literal["):
        return value in ast.literal_eval(kind.removeprefix("Literal"))
    words = set(re.findall(r"\w+", kind.replace("typing.", "")))
    plain = words & set(_TYPES)
    if not plain or words - set(_TYPES) - _WRAPPERS:
        return True
    if value is None:
        return bool(words & {"None", "Optional"})
    if isinstance(value, bool):
        return "bool" in words
    return isinstance(value, tuple(_TYPES[word] for word in plain)) or (isinstance(value, int) and "float" in words)
