"""Operators that call functions (`torch.cond`, `while_loop`, `scan`, flex attention), executed as what they consist of.

Eager torch compiles such operators by itself, and a compiler cannot be recorded. So a program is called with
compilation switched off, and the recorder runs the operator's own plain implementation, whose operations it sees like
all others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator

T = TypeVar("T")


def is_higher_order(target: Any) -> bool:
    """True if the operator takes functions among its arguments."""
    return isinstance(target, HigherOrderOperator)


def run_plainly(target: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operator's result, by operations that an active dispatch mode sees."""
    written_out = _WRITTEN_OUT.get(target.name())
    if written_out:
        return written_out(*args, **kwargs)
    plain = target.py_kernels.get(DispatchKey.CompositeExplicitAutograd)
    if plain is None:
        raise NotImplementedError(f"{target.name()} has no plain implementation")
    return plain(*args, **kwargs)


def call_uncompiled(call: Callable[[], T]) -> T:
    """Call a program in which `torch.compile` and operators like `torch.cond` compile nothing. A program that has not
    loaded the compiler cannot have compiled anything; one that loads it while it runs is called again."""
    if "torch._dynamo" not in sys.modules:
        try:
            result = call()
        except Exception:
            if "torch._dynamo" not in sys.modules:
                raise
        else:
            if "torch._dynamo" not in sys.modules:
                return result
    with torch.compiler.set_stance("force_eager"):
        return call()


def _cond(predicate: Any, if_true: Callable[..., Any], if_false: Callable[..., Any], operands: Any) -> Any:
    return (if_true if predicate else if_false)(*operands)


def _scan(combine: Callable[..., Any], start: Any, sequences: Any, additional: Any) -> Any:
    from torch._higher_order_ops.scan import generic_scan

    return generic_scan(combine, start, sequences, additional_inputs=additional)


# The plain implementations of these refuse to run while anything watches.
_WRITTEN_OUT: dict[str, Callable[..., Any]] = {"cond": _cond, "scan": _scan}
