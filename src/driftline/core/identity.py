"""Names a bug by compiler, stage, kind, and the operators and dtypes of the smallest program known to fail.

The name also includes a compiler pass that was tried alone, and compiler settings without which the program was seen to
pass. It depends on nothing else: no table, no wording of messages, no processor, no shapes and numbers. The cause of a
bug, if known, is shown beside its name (`driftline.causes`) and never changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from driftline.core.evidence import Evidence, Fault
from driftline.core.execution import Execution, Stage
from driftline.core.program import Program
from driftline.core.rule import NO_PASS, ONE_PASS
from driftline.core.spelling import spelled_alike
from driftline.core.target import Target
from driftline.core.tensors import is_float
from driftline.core.verdict import Fingerprint, Judgement, Kind, Verdict

MOST_OPERATORS = 8  # a larger program is named by its digest, since sharing operators with another program means little
# Circumstances of a program that are part of its name.
AFTER_ANOTHER_CALL = "after another call"  # the program is right in a first call
WITH_GRADIENT = "with gradient"


def with_setting(name: str, value: str) -> str:
    """Return the circumstance that the program passes without this compiler setting."""
    return f"with {name}={value}"


_ENDINGS = (Kind.ERROR, Kind.CRASH)
_OF_NUMBERS = (Kind.WRONG_VALUE, Kind.WRONG_NONFINITE, Kind.WRONG_ZERO_SIGN)
# Faults that are different bugs, whatever the operator; all others are "wrong numbers".
_TELLING = (Fault.TIES, Fault.SUBNORMAL, Fault.BEYOND_RANGE, Fault.UNINITIALISED)
_ANY_WIDTH = (Kind.WRONG_NONFINITE, Kind.CRASH)  # a lost NaN or a crash hardly ever depends on the width
_CLASSES = {"float32": "float", "float64": "double", "float16": "half", "bfloat16": "half"}


def identify(
    program: Program,
    operators: Sequence[str],
    target: Target,
    execution: Execution,
    verdict: Verdict,
    blame: str = "",
) -> Fingerprint:
    """Return the fingerprint of a failure. `operators`: those of the program; `blame`: the converter, if it and not the
    backend is at fault."""
    converter = execution.converter if execution.stage is Stage.CONVERT else ""
    found = fingerprint_of(
        program,
        operators,
        backend=blame or converter or target.backend,
        stage=str(Stage.CONVERT if blame else execution.stage),
        kind=kind_of(verdict),
        found=verdict.evidence,
    )
    name = dict(target.options).get(ONE_PASS, NO_PASS)
    return found if name == NO_PASS else replace(found, detail=f"{found.detail} by pass {name}")


def kind_of(verdict: Verdict) -> Kind:
    """Return the kind in a bug's name: results explained by reduced precision have their own kind, and a bias counts as
    a wrong value, seen on other inputs."""
    if verdict.judgement is Judgement.REDUCED or verdict.evidence.policies:
        return Kind.REDUCED_PRECISION
    assert verdict.kind is not None
    return Kind.WRONG_VALUE if verdict.kind is Kind.BIAS else verdict.kind


def is_plain(kind: Kind, found: Evidence) -> bool:
    """True for wrong numbers about which the name says no more; also if only their sum shows it."""
    return kind in (Kind.WRONG_VALUE, Kind.BIAS) and found.fault not in _TELLING and not found.policies


def fingerprint_of(
    program: Program, operators: Sequence[str], *, backend: str, stage: str, kind: Kind, found: Evidence
) -> Fingerprint:
    """Return the fingerprint of a failure from its measurements."""
    what = ""
    left_over = AFTER_ANOTHER_CALL in program.circumstances and kind in _OF_NUMBERS
    if left_over:  # the leftover of another call may be wrong in any way, which does not characterise the bug
        kind = Kind.WRONG_VALUE
    elif kind in _ENDINGS:
        what = found.exception or found.signal
    elif kind is Kind.WRONG_VALUE and found.fault in _TELLING:
        what = str(found.fault)
    any_width = left_over or kind in _ANY_WIDTH or found.fault is Fault.UNINITIALISED
    detail = f"{_operators(program, operators)} of {_types(program, found, any_width=any_width)}"
    return Fingerprint(backend, stage, str(kind), f"{what} in {detail}" if what else detail)


def _operators(program: Program, listed: Sequence[str]) -> str:
    names = sorted(spelled_alike(listed))
    if not 0 < len(names) <= MOST_OPERATORS:
        return f"program {program.digest[:12]}"
    return " ".join(("+".join(names), *sorted(program.circumstances)))


def operators_named_in(detail: str) -> frozenset[str]:
    """Return the operators named in the detail of a fingerprint, in the common spelling."""
    words = detail.rpartition(" of ")[0].rpartition(" in ")[2]
    return frozenset(words.partition(" ")[0].split("+"))


def _types(program: Program, found: Evidence, *, any_width: bool) -> str:
    """Return the dtype classes in a bug's name: of the float and complex inputs, else of all inputs, else of the
    output. An index or a mask beside floats does not count."""
    dtypes = [spec.dtype for spec in program.inputs] or ([found.dtype] if found.dtype else [])
    numbers = [name for name in dtypes if is_float(name) or name.startswith("complex")]
    return "+".join(sorted({dtype_class(name, any_width=any_width) for name in numbers or dtypes})) or "nothing"


def dtype_class(name: str, *, any_width: bool = False) -> str:
    """Return the class of a dtype: float, double, half, float8, int, uint, bool, complex."""
    if is_float(name):
        return "float" if any_width else _CLASSES.get(name, "float8")
    return name.rstrip("0123456789") or name
