"""The parameters of a target: their names and the kinds of values they accept, from its schema."""

from __future__ import annotations

import inspect
import operator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from driftline.patterns.inductor.invert.wish import NotBuilt

_KINDS = {
    "Tensor": "tensor", "List[Tensor]": "tensors", "List[Optional[Tensor]]": "tensors", "int": "int",
    "SymInt": "int", "float": "number", "number": "number", "Scalar": "number", "bool": "bool", "str": "string",
    "ScalarType": "dtype", "Device": "device", "Layout": "layout", "MemoryFormat": "format", "Generator": "generator",
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function or operator."""

    name: str
    kind: str  # tensor, tensors, int, ints, number, bool, dtype, string, ...
    required: bool = True
    optional: bool = False  # None is a value of it
    keyword: bool = False  # cannot be given by position


# Python functions that have no schema; `?` marks what may be left out.
_WRITTEN = {
    "split": "tensor:tensor split_size_or_sections:ints dim:int?",
    "unbind": "input:tensor dim:int?",
    "cat": "tensors:tensors dim:int?",
    "concat": "tensors:tensors dim:int?",
    "stack": "tensors:tensors dim:int?",
    "squeeze": "input:tensor dim:int?",
    "reshape": "input:tensor shape:ints",
    "clamp": "input:tensor min:number? max:number?",
    "detach": "input:tensor",
    "argmax": "input:tensor dim:int? keepdim:bool?",
    "einsum": "equation:string left:tensor right:tensor",
    "batch_norm": "input:tensor running_mean:tensor running_var:tensor weight:tensor? bias:tensor? training:bool?"
    " momentum:number? eps:number?",
    "getitem": "a:any b:int",
    "truediv": "a:tensor b:tensor",
}


@lru_cache(1024)
def parameters_of(target: Any) -> tuple[Parameter, ...]:
    """Return the parameters of a target. Raises NotBuilt if they are not known."""
    if isinstance(target, torch._ops.OpOverload):
        return tuple(_of_schema(argument) for argument in target._schema.arguments)
    name = name_of(target)
    if name not in _WRITTEN:
        raise NotBuilt(f"the parameters of {name} are not known")
    found = []
    for item in _WRITTEN[name].split():
        argument, kind = item.split(":")
        found.append(Parameter(argument, kind.rstrip("?"), not kind.endswith("?")))
    return tuple(found)


def _of_schema(argument: Any) -> Parameter:
    kind = str(argument.real_type)
    optional = kind.startswith("Optional[")
    kind = kind[9:-1] if optional else kind
    known = _KINDS.get(kind) or ("ints" if kind in ("List[int]", "List[SymInt]") else kind)
    return Parameter(argument.name, known, not argument.has_default_value(), optional, argument.kwarg_only)


def name_of(target: Any) -> str:
    """Return the short name of a target: `mm` for aten.mm.default, `split` for torch.split and for the method."""
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OpOverload):
        return str(target._schema.name.partition("::")[2])
    if target is operator.getitem:
        return "getitem"
    if inspect.isclass(target):
        return target.__name__
    return str(getattr(target, "__name__", target))
