"""Operators that are defined by their kernel alone: custom operators, and those of libraries.

The kernel itself is the reference for such an operator. It is called with the dtypes that the program passes, because
it may not accept float64 or may treat it differently. It is recorded as a function that returns what the kernel writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from driftline.oracle.shadow.torch.rules import is_foreign

_WIDE = {torch.complex64: torch.complex128}
_NARROW = (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


@dataclass(frozen=True)
class _Schema:
    """A minimal operator schema for the rules: the operator's name, and no arguments."""

    name: str
    arguments: tuple[Any, ...] = ()
    is_mutable: bool = False


class OwnKernel:
    """The kernel of a foreign operator as an operation of a tape: it takes and returns float64, and returns the tensors
    that the kernel writes to after its own results."""

    is_view = False
    tags: tuple[torch.Tag, ...] = ()

    def __init__(self, operator: Any, dtypes: tuple[torch.dtype | None, ...]) -> None:
        """`dtypes` are those of the flattened arguments; `None` for arguments that are not tensors."""
        self._operator = operator
        self._dtypes = dtypes
        self.namespace = operator.namespace
        self._schema = _Schema(operator._schema.name)

    @staticmethod
    def of(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OwnKernel:
        """Return the operation for a call of the operator with these arguments."""
        leaves = tree_leaves((args, kwargs))
        return _own_kernel(operator, tuple(leaf.dtype if isinstance(leaf, torch.Tensor) else None for leaf in leaves))

    def __str__(self) -> str:
        return str(self._operator)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        leaves, spec = tree_flatten((args, kwargs))
        given = [
            leaf.detach().to(dtype, copy=True) if isinstance(leaf, torch.Tensor) and dtype else leaf
            for leaf, dtype in zip(leaves, self._dtypes, strict=True)
        ]
        own_args, own_kwargs = tree_unflatten(given, spec)
        results = results_of(self._operator(*own_args, **own_kwargs))
        return tuple(tree_map(_wide, (*results, *written_by(self._operator, own_args, own_kwargs))))


@cache
def _own_kernel(operator: Any, dtypes: tuple[torch.dtype | None, ...]) -> OwnKernel:
    return OwnKernel(operator, dtypes)


def results_of(result: Any) -> tuple[Any, ...]:
    """Return the results of an operator as a tuple."""
    if result is None:
        return ()
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def written_by(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors among the arguments that the operator writes to."""
    written: list[torch.Tensor] = []
    for position, argument in enumerate(operator._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[position] if position < len(args) else kwargs.get(argument.name)
            written += [leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]
    return written


def body_of(operator: Any) -> Callable[..., Any] | None:
    """Return the function behind a foreign operator that compilers trace into, as with `torch.library.triton_op`, or
    `None`."""
    if not is_foreign(operator):
        return None
    from torch._library.custom_ops import OPDEFS
    from torch._subclasses.functional_tensor import FunctionalTensorMode

    found = OPDEFS.get(operator._schema.name)
    if found is None or FunctionalTensorMode not in found._torch_dispatch_fns:
        return None
    body: Callable[..., Any] | None = found._abstract_fn
    return body


def _wide(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(torch.float64) if value.dtype in _NARROW else value.to(_WIDE.get(value.dtype, value.dtype))
