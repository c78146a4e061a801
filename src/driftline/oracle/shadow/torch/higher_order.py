"""Operators that call functions (`torch.cond`, `while_loop`, `scan`, flex attention), executed as plain Python.

Eager torch compiles such operators by itself, and differentiates them by tracing their functions; neither can be
recorded. So programs are called with compilation switched off, and the operators listed in `_MEANINGS` are replaced by
plain implementations above autograd, so that the operations of their functions are recorded and differentiated.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

T = TypeVar("T")
_COMPILE = "_hop_compile_and_call"


def is_higher_order(target: Any) -> bool:
    """True if the operator takes functions among its arguments."""
    return isinstance(target, HigherOrderOperator)


def run_plainly(target: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Execute the operator by its plain implementation, whose operations an active dispatch mode sees."""
    meaning = _MEANINGS.get(target.name())
    if meaning:
        return meaning(*args, **kwargs)
    plain = target.py_kernels.get(DispatchKey.CompositeExplicitAutograd)
    if plain is None:
        raise NotImplementedError(f"{target.name()} has no plain implementation")
    return plain(*args, **kwargs)


@dataclass
class PlainOperators:
    """Records whether a program called an operator that was executed plainly."""

    called: bool = False


@contextlib.contextmanager
def plain_operators() -> Iterator[PlainOperators]:
    """A context in which operators listed in `_MEANINGS` are executed by their plain implementation and compile
    nothing."""
    seen = PlainOperators()
    known = [type(operator) for name, operator in torch._ops._higher_order_ops.items() if name in _MEANINGS]
    # Operator classes check their arguments and then call their base class, which operators defined later use directly.
    before = {kind: kind.__call__ for kind in (HigherOrderOperator, *known)}

    def in_place_of(dispatched: Callable[..., Any]) -> Callable[..., Any]:
        def call_operator(operator: HigherOrderOperator, /, *args: Any, **kwargs: Any) -> Any:
            if operator.name() in _MEANINGS and not _is_tracing():
                seen.called = True
                return run_plainly(operator, args, kwargs)
            return dispatched(operator, *args, **kwargs)

        return call_operator

    for kind, dispatched in before.items():
        kind.__call__ = in_place_of(dispatched)  # type: ignore[method-assign]
    try:
        with _compiling_by(lambda compiled: _call):
            yield seen
    finally:
        for kind, dispatched in before.items():
            kind.__call__ = dispatched  # type: ignore[method-assign]


def _call(function: Callable[..., Any], args: Any, kwargs: Any = None) -> Any:
    return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def operators_of_eager() -> Iterator[None]:
    """A context in which nothing is compiled except operators like `torch.cond`, which eager torch compiles too."""

    def with_compiler(compiled: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            with torch.compiler.set_stance("default"):
                return compiled(*args)

        return call

    with torch.compiler.set_stance("force_eager"), _compiling_by(with_compiler):
        yield


@contextlib.contextmanager
def _compiling_by(change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """A context in which eager operators like `torch.cond` are compiled by another function. Releases of torch before
    2.12 have no hook for this, so nothing changes there."""
    from torch._higher_order_ops import utils

    compiled = getattr(utils, _COMPILE, None)
    if compiled is None:
        yield
        return
    setattr(utils, _COMPILE, change(compiled))
    try:
        yield
    finally:
        setattr(utils, _COMPILE, compiled)


def call_uncompiled(call: Callable[[], T]) -> T:
    """Call a program while `torch.compile` and operators like `torch.cond` compile nothing. A program that loads the
    compiler while it runs is called a second time."""
    with plain_operators():
        return call_forced(call)


def call_forced(call: Callable[[], T]) -> T:
    """Call a program while `torch.compile` compiles nothing. A program that loads the compiler while it runs is called
    twice."""
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


def _is_tracing() -> bool:
    """True if operators are being traced into a graph instead of executed."""
    return any(mode.is_infra_mode() for mode in _get_current_dispatch_mode_stack())


def _cond(predicate: Any, if_true: Callable[..., Any], if_false: Callable[..., Any], operands: Any) -> Any:
    """Execute `torch.cond`; for a batched predicate, compute both branches and select."""
    if _is_batched(predicate):
        pairs = (if_true(*operands), if_false(*operands))
        return tree_map(lambda one, other: torch.where(predicate, one, other), *pairs)
    return (if_true if predicate else if_false)(*operands)


def _is_batched(value: Any) -> bool:
    """True if the tensor is batched by `torch.vmap`, with one value per element of the batch."""
    functorch = torch._C._functorch
    while isinstance(value, torch.Tensor) and functorch.is_functorch_wrapped_tensor(value):
        if functorch.is_batchedtensor(value):
            return True
        value = functorch.get_unwrapped(value)
    return False


def _while_loop(goes_on: Any, body: Any, carried: Any, additional: Any = (), mutated_arg_indices: str = "") -> Any:
    states = _states(goes_on, body, carried, additional)
    if states:
        return states[-1]
    return _structured([_copy(one) for one in carried], body, (*carried, *additional))


def _while_loop_stacked(goes_on: Any, body: Any, carried: Any, additional: Any = ()) -> Any:
    states = _states(goes_on, body, carried, additional)
    if not states:
        return tuple(_copy(one.unsqueeze(0)) for one in carried)
    return tree_map(lambda *steps: torch.stack(steps), *states)


def _states(goes_on: Any, body: Any, carried: Any, additional: Any) -> list[Any]:
    """Return the results of the loop body, one per iteration."""
    states: list[Any] = []
    flat = list(carried)
    while goes_on(*flat, *additional):
        states.append(body(*flat, *additional))
        flat = tree_flatten(states[-1])[0]
    return states


def _structured(values: list[Any], body: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """Return the values in the structure that `body` returns, found by calling it on copies, without recording."""
    with _disable_current_modes(), torch.no_grad():
        spec = tree_flatten(body(*[_copy(one) for one in operands]))[1]
    return tree_unflatten(values, spec)


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _scan(combine: Callable[..., Any], start: Any, sequences: Any, additional_inputs: Any = ()) -> Any:
    """Return the last carry and the stacked outputs, in the structure that `combine` returns."""
    carry, stacks = list(start), []
    spec = None
    for elements in zip(*[sequence.unbind(0) for sequence in sequences], strict=True):
        flat, spec = tree_flatten(combine(*carry, *elements, *additional_inputs))
        carry = flat[: len(carry)]
        stacks.append(flat[len(carry) :])
    outputs = [
        torch.stack(steps) if isinstance(steps[0], torch.Tensor) else None for steps in zip(*stacks, strict=True)
    ]
    return tree_unflatten([*carry, *outputs], spec) if spec else (*carry, *outputs)


def _map(function: Callable[..., Any], sequences: Any, additional: Any = ()) -> Any:
    rows = zip(*[sequence.unbind(0) for sequence in sequences], strict=True)
    results = [function(*elements, *additional) for elements in rows]
    return tree_map(lambda *steps: torch.stack(steps) if isinstance(steps[0], torch.Tensor) else None, *results)


def _subgraph(function: Callable[..., Any], identifier: Any, *operands: Any) -> Any:
    return _called(function, *operands)


def _strict(function: Callable[..., Any], operands: Any) -> Any:
    return function(*operands)


def _called(function: Callable[..., Any], *operands: Any, **kwargs: Any) -> Any:
    return function(list(operands)) if getattr(function, "_boxed_call", False) else function(*operands)


def _hinted(function: Callable[..., Any], args: Any, kwargs: Any, hints: Any) -> Any:
    return function(*args, **kwargs)


# Plain implementations of the operators. Those of torch refuse to run under a dispatch mode, return other structures
# than the compiled operators, or have no gradient.
_MEANINGS: dict[str, Callable[..., Any]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "while_loop_stack_output": _while_loop_stacked,
    "scan": _scan,
    "map_impl": _map,
    "invoke_subgraph": _subgraph,
    "strict_mode": _strict,
    "foreach_map": _called,
    "invoke_quant": _called,
    "invoke_quant_packed": _called,
    "hints_wrapper": _hinted,
}
