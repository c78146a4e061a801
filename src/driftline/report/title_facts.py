"""Extract the facts that a title names from a case: the operators as their framework spells them, and the numbers.

The facts are stored with a finding when it is recorded, so that a list of thousands of bugs need not read any programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from driftline.core.case import Case
from driftline.core.evidence import Element, Evidence
from driftline.core.identity import WITH_GRADIENT
from driftline.core.program import Program, SourceBundle
from driftline.core.short_numbers import telling_element
from driftline.core.spelling import spelled_alike
from driftline.core.tensors import Array
from driftline.core.titles import TitleFacts
from driftline.programs.onnx.file import load_structure
from driftline.programs.operands import operands_of
from driftline.programs.operators import operators_of, operators_written
from driftline.programs.output_path import operators_to_output, written_to_output
from driftline.report.mismatch import is_ordinary

LONGEST_NUMBER = 12  # characters of a number that stands in a call such as `exp(NaN)`
# Operators that only move elements; they are not named beside operators that compute.
_MOVING = frozenset(
    "constant identity clone contiguous detach reshape squeeze unsqueeze unflatten expanddims copy asarray".split()
)
_APPLIED = frozenset("vmap vjp jvp grad jit".split())  # done to a function, and no operators
# The functions of numpy that an operator of one element is, by names as `spelled_alike` gives them: they prove that a
# call such as `exp(NaN)` is the program, before a title says so.
_FUNCTIONS: Mapping[str, tuple[Any, ...]] = {
    **{
        name: (getattr(np, name),)
        for name in (
            "exp expm1 log log1p log2 log10 sqrt sin cos tan sinh cosh tanh floor ceil trunc sign reciprocal"
            " square isnan isinf exp2 logaddexp hypot copysign arctan2"
        ).split()
    },
    "abs": (np.abs,), "neg": (np.negative,), "round": (np.rint,), "add": (np.add,), "sub": (np.subtract,),
    "mul": (np.multiply,), "div": (np.divide, np.floor_divide), "pow": (np.power,), "max": (np.maximum,),
    "min": (np.minimum,), "mod": (np.remainder, np.fmod), "fmod": (np.fmod,), "remainder": (np.remainder,),
    "floordivide": (np.floor_divide,), "asin": (np.arcsin,), "acos": (np.arccos,), "atan": (np.arctan,),
    "asinh": (np.arcsinh,), "acosh": (np.arccosh,), "atanh": (np.arctanh,), "equal": (np.equal,),
    "less": (np.less,), "greater": (np.greater,), "fmax": (np.fmax,), "fmin": (np.fmin,),
    "relu": (lambda x: np.maximum(x, x.dtype.type(0)),), "sigmoid": (lambda x: 1 / (1 + np.exp(-x)),),
}  # fmt: skip


def facts_of(case: Case, evidence: Evidence) -> TitleFacts:
    """Return the facts of a failure that its title names."""
    program, index = case.runs, evidence.sample or 0
    arrays = case.samples[index].arrays if index < len(case.samples) else {}
    operators = title_operators(program, evidence.output)
    element = telling_element(evidence.worst, evidence.fault)
    plain = not program.circumstances and not case.options.grad and not evidence.part
    gradient = (WITH_GRADIENT,) if case.options.grad and WITH_GRADIENT not in program.circumstances else ()
    return TitleFacts(
        operators=operators,
        dtypes=tuple(dict.fromkeys(array.dtype.name for array in arrays.values())),
        circumstances=(*program.circumstances, *gradient),
        given=numbers_given(operators, _operands(program, operators, arrays), element) if element and plain else (),
        ordinary=is_ordinary(arrays) if arrays else None,
    )


def _operands(program: Program, operators: Sequence[str], arrays: Mapping[str, Array]) -> Sequence[Array]:
    """Return the operands of the only operator, or the inputs of the program if the operands are not known."""
    known = operands_of(program, operators[0], arrays) if len(operators) == 1 else None
    return [*arrays.values()] if known is None else known


def title_operators(program: Program, output: str = "") -> tuple[str, ...]:
    """Return the operators in the order and spelling of the program: `MaxPool` in ONNX, `max_pool2d` in torch.
    Generated programs list the names of the operator table instead. `output`: only operators that this output depends
    on, where the program shows that.
    """
    try:
        if program.form == "onnx":
            graph = load_structure(program.path).graph
            written: Sequence[str] = [node.op_type for node in graph.node]
            way: Sequence[str] = operators_to_output(graph, output) if output else ()
        else:
            written = operators_written(program) if program.form == "source" else ()
            way = _way_in_text(program, output) if written and _is_result(output) else ()
    except Exception:  # a damaged program: the names that were listed say enough
        written = way = ()
    names = dict.fromkeys(name for name in written if name not in _APPLIED)
    found = as_written([*names], operators_of(program))
    if way:
        elsewhere = set(written).difference(way)
        found = [name for name in found if name not in elsewhere] or found
    computing = [name for name in found if not spelled_alike([name]) <= _MOVING]
    return tuple(computing or found)


def _is_result(output: str) -> bool:
    return output == "output" or output.isdigit()


def _way_in_text(program: Program, output: str) -> tuple[str, ...]:
    bundle = SourceBundle.load(program.path.read_bytes())
    return written_to_output(bundle.text, bundle.entry_name, output)


def as_written(written: Sequence[str], listed: Sequence[str]) -> list[str]:
    """Return the listed operators in the spelling of the program's text. Operators that the text spells in another way
    (`real` is an attribute of a tensor) keep their listed names. If the two lists name different operators, as for an
    operator that the text writes as several, all operators of the text are returned.
    """
    spelling = {one: name for name in written for one in spelled_alike([name])}
    known = {one for name in listed for one in spelled_alike([name])}
    if not written or not listed:
        return list(written or listed)
    others = [name for name in written if not spelled_alike([name]) <= known]
    missing = known - set(spelling)
    if others and missing:
        return list(written)
    if missing:
        return [spelling.get(next(iter(spelled_alike([name])), ""), name) for name in listed]
    return [name for name in written if name not in others]


def numbers_given(operators: Sequence[str], arrays: Sequence[Array], element: Element) -> tuple[str, ...]:
    """Return the inputs of an operator at one element of its output, as text. Empty unless the program is one
    elementwise operator and numpy's function of these numbers gives the expected result.
    """
    functions = next((_FUNCTIONS.get(name, ()) for name in spelled_alike(operators)), ())
    if len(operators) != 1 or not functions:
        return ()
    numbers = [_at(array, element.place) for array in arrays]
    if any(number is None for number in numbers):
        return ()
    texts = tuple(map(_text, numbers))
    right = any(_gives(function, numbers, element.expected) for function in functions)
    return texts if right and max(map(len, texts), default=LONGEST_NUMBER) < LONGEST_NUMBER else ()


def _at(array: Array, place: Sequence[int]) -> Any:
    """Return the element of an array that is broadcast to an index, or None if there is none."""
    if array.ndim > len(place) or array.dtype.kind == "c":
        return None
    index = [0 if size == 1 else at for size, at in zip(array.shape, place[len(place) - array.ndim :], strict=True)]
    if any(at >= size for at, size in zip(index, array.shape, strict=True)):
        return None
    return array[tuple(index)]


def _gives(function: Any, numbers: Sequence[Any], expected: Any) -> bool:
    try:
        with np.errstate(all="ignore"):
            result = function(*(np.asarray(number) for number in numbers))
        return bool(np.isclose(float(result), float(expected), rtol=1e-2, atol=0, equal_nan=True))
    except (TypeError, ValueError, ZeroDivisionError):
        return False


def _text(number: Any) -> str:
    """Format a number exactly: `NaN`, `2`, `0.1`."""
    if number.dtype.kind in "biu":
        return str(number.item())
    value = float(number)
    if np.isnan(value):
        return "NaN"
    return str(number).removesuffix(".0") if value else str(value).removesuffix(".0")
