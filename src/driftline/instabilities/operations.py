"""The operators that models are composed of, as entries of the operator table with fixed attributes.

Reductions run along the last axis and keep it, so that any operator can follow any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean

_EPS = 2.0**-17  # a power of two: the float32 attribute of ONNX is then the number that torch reads
_ROW = {"axes": [-1], "keepdim": True}


@dataclass(frozen=True)
class Composable:
    """An operator under the name that `--ops` uses. `row` is its name in the operator table."""

    name: str
    row: str
    operands: int = 1
    attributes: Mapping[str, Any] = field(default_factory=dict)


def _same(names: str, operands: int = 1) -> list[Composable]:
    return [Composable(name, name, operands) for name in names.split()]


_KNOWN = [
    *_same(
        "exp exp2 log log2 log10 sqrt rsqrt reciprocal square abs neg sin cos tan tanh sinh cosh asin acos atan sigmoid"
        " relu gelu silu mish erf logsigmoid floor round"
    ),
    *_same("add sub mul div pow maximum minimum", operands=2),
    Composable("softplus", "softplus", attributes={"beta": 1.0}),
    Composable("elu", "elu", attributes={"alpha": 1.0}),
    Composable("softmax", "softmax", attributes={"axis": -1}),
    Composable("log_softmax", "log_softmax", attributes={"axis": -1}),
    Composable("cumsum", "cumsum", attributes={"axis": -1}),
    *(Composable(name, name, attributes=_ROW) for name in ("sum", "mean", "amax", "amin", "logsumexp")),
    Composable("prod", "prod", attributes={"axes": [-1], "keepdim": True}),
    Composable("norm", "norm_l2", attributes=_ROW),
    Composable("var", "var", attributes={**_ROW, "correction": 0}),
    Composable("std", "std", attributes={**_ROW, "correction": 0}),
    Composable("normalize", "normalize", attributes={"p": 2, "axis": -1, "eps": 2.0**-40}),
    Composable("layer_norm", "layer_norm", attributes={"axes": 1, "eps": _EPS}),
    Composable("rms_norm", "rms_norm", attributes={"axes": 1, "eps": _EPS}),
]
COMPOSABLE: Mapping[str, Composable] = {one.name: one for one in _KNOWN}


def parse_operations(text: str) -> tuple[Composable, ...]:
    """Parse a list of operators such as `exp,log,div`."""
    found: dict[str, Composable] = {}
    for name in filter(None, (part.strip() for part in text.split(","))):
        if name not in COMPOSABLE:
            raise DriftlineError(
                f"--ops {name}: there is no such operator.{did_you_mean(name, COMPOSABLE)}"
                f" Known: {', '.join(COMPOSABLE)}."
            )
        found[name] = COMPOSABLE[name]
    if not found:
        raise DriftlineError("--ops: name at least one operator, as in --ops exp,log,div.")
    return tuple(found.values())


def names_of(operations: Sequence[Composable]) -> str:
    return ", ".join(operation.name for operation in operations)
