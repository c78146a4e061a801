"""Synthetic programs for `reduce.py`: chains and DAGs of many calls, of which k marked ones together make a bug."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx as fx
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten
# The operators that are marked where kinds differ, and the constants that mark them where they do not.
KINDS = (aten.relu.default, aten.sigmoid.default, aten.tanh.default)
CONSTANTS = (7.0, 11.0, 13.0)


@dataclass(frozen=True)
class Case:
    """A program, its inputs, and what a graph must hold to fail."""

    name: str
    module: fx.GraphModule
    inputs: list[Any]
    fails: Callable[[fx.GraphModule, list[Any]], bool]

    @property
    def calls(self) -> int:
        return calls(self.module)


def calls(module: fx.GraphModule) -> int:
    return sum(node.op == "call_function" for node in module.graph.nodes)


def synthetic(shape: str, marked: int, seed: int, length: int = 200) -> Case:
    """`shape` is chain, dag, mixed (a chain through several tensor shapes), same (all operators of one kind, marked by
    a constant), bare (the same, but every operator has a constant of its own: nothing tells where to look) or value (a
    chain whose predicate runs it)."""
    rng = random.Random(f"{shape} {marked} {seed}")
    places = sorted(rng.sample(range(length // 20, length - length // 20), marked))
    kinds = dict(zip(places, rng.sample(range(3), marked), strict=True))
    body = {"chain": _chain, "dag": _dag, "mixed": _mixed, "same": _same, "bare": _bare, "value": _chain}[shape]
    given = torch.linspace(-2, 2, 24).reshape(4, 6)
    module = make_fx(lambda x: body(x, length, kinds, random.Random(seed)))(given)
    wanted = sorted(kinds.values())
    if shape == "same":
        fails = _holds_constants([CONSTANTS[kind] for kind in wanted])
    elif shape == "bare":
        fails = _holds_constants([float(place) for place in places])
    elif shape == "value":
        fails = _computes_wrongly([KINDS[kind] for kind in wanted])
    else:
        fails = _holds_kinds([KINDS[kind] for kind in wanted])
    return Case(f"{shape} k={marked} seed={seed}", module, [given], fails)


def _chain(x: Any, length: int, kinds: dict[int, int], rng: random.Random) -> Any:
    for at in range(length):
        x = KINDS[kinds[at]](x) if at in kinds else aten.sin.default(x)
    return (x,)


def _dag(x: Any, length: int, kinds: dict[int, int], rng: random.Random) -> Any:
    values = [x]
    for at in range(length):
        near = values[-5:]
        if at in kinds:
            values.append(KINDS[kinds[at]](rng.choice(near)))
        else:
            values.append(aten.add.Tensor(rng.choice(near), rng.choice(near)))
    total = values[-1]
    for value in values[-5:-1]:
        total = aten.add.Tensor(total, value)
    return (total,)


def _mixed(x: Any, length: int, kinds: dict[int, int], rng: random.Random) -> Any:
    for at in range(length):
        if at in kinds:
            x = KINDS[kinds[at]](x)
            continue
        choice = rng.randrange(6)
        if choice == 0:
            x = aten.view.default(x, rng.choice([[24], [4, 6], [2, 12], [3, 8], [2, 3, 4]]))
        elif choice == 1 and x.ndim == 2:
            x = aten.view.default(aten.permute.default(x, [1, 0]).contiguous(), [x.shape[1], x.shape[0]])
        elif choice == 2:
            x = aten.add.Tensor(x, aten.sum.dim_IntList(x, [-1], True))
        elif choice == 3:
            x = aten.mul.Tensor(x, 0.5)
        else:
            x = aten.sin.default(x)
    return (x,)


def _same(x: Any, length: int, kinds: dict[int, int], rng: random.Random) -> Any:
    for at in range(length):
        x = aten.add.Tensor(x, CONSTANTS[kinds[at]] if at in kinds else 1.0)
    return (x,)


def _bare(x: Any, length: int, kinds: dict[int, int], rng: random.Random) -> Any:
    for at in range(length):
        x = aten.add.Tensor(x, float(at))
    return (x,)


def _holds_kinds(wanted: list[Any]) -> Callable[[fx.GraphModule, list[Any]], bool]:
    def fails(module: fx.GraphModule, inputs: list[Any]) -> bool:
        present = {node.target for node in module.graph.nodes}
        return all(kind in present for kind in wanted)

    return fails


def _holds_constants(wanted: list[float]) -> Callable[[fx.GraphModule, list[Any]], bool]:
    def fails(module: fx.GraphModule, inputs: list[Any]) -> bool:
        present = {node.args[1] for node in module.graph.nodes if node.target is aten.add.Tensor}
        return all(constant in present for constant in wanted)

    return fails


def _computes_wrongly(wanted: list[Any]) -> Callable[[fx.GraphModule, list[Any]], bool]:
    """A compiler that is wrong on the last marked operator, when all are there and it is given something below zero or
    above one half; what it returns must differ from what is right."""

    def fails(module: fx.GraphModule, inputs: list[Any]) -> bool:
        present = {node.target for node in module.graph.nodes}
        if not all(kind in present for kind in wanted):
            return False

        class Wrong(fx.Interpreter):
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                right = super().call_function(target, args, kwargs)
                if target is wanted[-1] and bool(((args[0] < 0) | (args[0] > 0.5)).any()):
                    return right + 1
                return right

        right = fx.Interpreter(module).run(*inputs)
        wrong = Wrong(module).run(*inputs)
        return any(not torch.allclose(a, b) for a, b in zip(_tensors(right), _tensors(wrong), strict=True))

    return fails


def _tensors(value: Any) -> list[Any]:
    return [v for v in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(v, torch.Tensor)]


# -- real bugs of TorchInductor ----------------------------------------------------------------------------------------


def inductor_cases() -> list[Case]:
    """Inductor's own planted bug (relu), and 0 * x folded to zeros where x is infinite, inside sixty calls."""
    given = torch.linspace(-2, 2, 24).reshape(4, 6)
    module = make_fx(_sixty_calls)(given)
    fold = make_fx(_with_folding)(given)
    return [
        Case("inductor relu", module, [given], _differs_from_eager({"cpp.inject_relu_bug_TESTING_ONLY": "accuracy"})),
        Case("inductor 0*x", fold, [given], _differs_from_eager({})),
    ]


def _sixty_calls(x: Any) -> Any:
    for at in range(60):
        x = aten.relu.default(x) if at == 37 else aten.sin.default(x) if at % 3 else aten.mul.Tensor(x, 1.25)
    return (aten.sum.dim_IntList(x, [-1]),)


def _with_folding(x: Any) -> Any:
    for at in range(60):
        if at == 31:
            x = aten.add.Tensor(x, aten.mul.Tensor(aten.div.Tensor(x, aten.sub.Tensor(x, x)), 0))
        else:
            x = aten.mul.Tensor(x, 1.25) if at % 2 else aten.add.Tensor(x, 0.125)
    return (x,)


def _differs_from_eager(config: dict[str, Any]) -> Callable[[fx.GraphModule, list[Any]], bool]:
    import torch._dynamo
    import torch._inductor.config

    def fails(module: fx.GraphModule, inputs: list[Any]) -> bool:
        torch._dynamo.reset()
        try:
            with torch._inductor.config.patch(config), torch.no_grad():
                got = torch.compile(module, backend="inductor")(*inputs)
                right = module(*inputs)
        except Exception:
            return False
        pairs = zip(_tensors(right), _tensors(got), strict=True)
        return any(not torch.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True) for a, b in pairs)

    return fails
