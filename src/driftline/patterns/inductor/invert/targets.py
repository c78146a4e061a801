"""Choose one of the functions that a part of a pattern allows: an overload that fits the arguments."""

from __future__ import annotations

from typing import Any

import torch
import torch._inductor.pattern_matcher as pm

from driftline.backends.inductor_rules.needs import parts_of
from driftline.patterns.inductor.invert.parameters import parameters_of
from driftline.patterns.inductor.invert.wish import NotBuilt

# Overloads that a plain call gives, the commonest first.
_PLAIN = ("Tensor", "default", "self", "int", "value", "Scalar")
# Arithmetic takes a number where its schema says tensor.
MIXED = frozenset({"add", "sub", "mul", "div"})


def target_of(part: Any) -> Any:
    """Return the function to use for a part of a pattern. Raises NotBuilt if no overload fits."""
    if not isinstance(part.fns[0], (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return part.fns[0]
    overloads = [fn for fn in part.fns if isinstance(fn, torch._ops.OpOverload) and _gives_tensors(fn)]
    fitting = [fn for fn in overloads if _fits(fn, part)]
    if not fitting:
        raise NotBuilt(f"no overload of {part.fns[0]} takes the arguments of the pattern")
    return min(fitting, key=_plainness)


def target_parts(part: Any) -> list[Any]:
    """Return the operators in a part of a pattern, including the part itself."""
    return [inner for inner in parts_of(part) if isinstance(inner, pm._TargetExpr)]


def _plainness(overload: Any) -> int:
    name = overload._overloadname
    return _PLAIN.index(name) if name in _PLAIN else len(_PLAIN)


def _gives_tensors(overload: Any) -> bool:
    schema = overload._schema
    written = any(argument.is_out for argument in schema.arguments)
    return not written and any("Tensor" in str(value.type) for value in schema.returns)


def _fits(overload: Any, part: Any) -> bool:
    if not isinstance(part, pm._TargetArgsExpr):
        return True
    parameters = parameters_of(overload)
    if len(part.args) > len(parameters):
        return False
    named = {parameter.name: parameter for parameter in parameters}
    pairs = [*zip(part.args, parameters, strict=False), *((part.kwargs[k], named.get(k)) for k in part.kwargs)]
    mixed = overload._schema.name.partition("::")[2] in MIXED
    return all(parameter is not None and _takes(parameter, value, mixed) for value, parameter in pairs)


def _takes(parameter: Any, value: Any, mixed: bool) -> bool:
    if isinstance(value, pm._TargetExpr):
        return parameter.kind == "tensor"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return parameter.kind in ("number", "int") or (mixed and parameter.kind == "tensor")
    if isinstance(value, bool):
        return parameter.kind == "bool"
    return True
