"""Operators that call functions: right results pass, a wrong body is found, and structures are those of eager torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch._higher_order_ops import associative_scan, map, scan, while_loop
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint
from torch_programs import Program

from driftline.backends._torch import as_arrays, flatten_tensors
from driftline.oracle.shadow.torch.higher_order import operators_of_eager, plain_operators

Body = Callable[[torch.Tensor], torch.Tensor]
FAULT = 1.0001


@dataclass(frozen=True)
class Case:
    """A program around a body, so that a fault can be planted in the body alone."""

    function: Callable[[Body, torch.Tensor], Any]
    compiles: bool = True


@torch.compiler.nested_compile_region
def region(x: torch.Tensor) -> torch.Tensor:
    return x.exp() + 1


class Clamped(torch.autograd.Function):
    """Its backward is not the derivative of its forward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return (gradient * x).clamp(-1, 1)


def nested(body: Body, x: torch.Tensor) -> Any:
    def inner(y: torch.Tensor) -> torch.Tensor:
        return torch.cond(y.sum() > 1e6, torch.cos, body, (y,))

    return torch.cond(x.sum() > 0, inner, lambda y: y.cos(), (x,))


def loop(body: Body, x: torch.Tensor) -> Any:
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, body(y)), (torch.tensor(0), x))


def attention(body: Body, x: torch.Tensor) -> Any:
    heads = x.reshape(1, 1, 16, 4)
    causal = create_block_mask(lambda b, h, i, j: i >= j, 1, None, 16, 16, device="cpu", BLOCK_SIZE=16)
    return flex_attention(
        heads, heads, heads, score_mod=lambda s, b, h, i, j: body(s) + (i - j) * 0.1, block_mask=causal
    )


CASES = {
    "cond": Case(lambda body, x: torch.cond(x.sum() > 0, body, lambda y: y.cos(), (x,))),
    "cond nested": Case(nested),
    "cond mapped": Case(lambda body, x: torch.vmap(lambda r: torch.cond(r.sum() > 2, body, torch.cos, (r,)))(x)),
    "while_loop": Case(loop),
    "scan": Case(lambda body, x: scan(lambda c, y: (c + body(y), c * y), torch.zeros(4), x)),
    "scan reverse": Case(lambda body, x: scan(lambda c, y: (c + y, body(c)), torch.zeros(4), x, reverse=True)),
    "scan tree": Case(lambda body, x: scan(lambda c, y: ({"h": c["h"] + y}, body(c["h"])), {"h": torch.zeros(4)}, x)),
    "associative_scan": Case(lambda body, x: associative_scan(lambda a, b: a + b, body(x), 0, combine_mode="generic")),
    "map": Case(lambda body, x: map(lambda y, w: {"row": body(y) * w}, x, x[0] + 1)),
    "flex_attention": Case(attention, compiles=False),
    "checkpoint": Case(lambda body, x: checkpoint(body, x, use_reentrant=False)),
    "checkpoint reentrant": Case(lambda body, x: checkpoint(body, x, use_reentrant=True)),
    "region": Case(lambda body, x: region(body(region(x)))),
    "invoke_subgraph": Case(lambda body, x: invoke_subgraph(lambda y: (body(y),), "part", x)[0], compiles=False),
    "autograd.Function": Case(lambda body, x: Clamped.apply(body(x))),
    "jvp": Case(lambda body, x: torch.func.jvp(body, (x,), (x,))),
    "jacfwd": Case(lambda body, x: torch.func.jacfwd(lambda y: body(y) * y.sum())(x[0])),
    "hessian": Case(lambda body, x: torch.func.hessian(lambda y: (body(y) * y).sum())(x[0])),
}
DIFFERENTIATED = ("cond", "cond nested", "while_loop", "scan", "scan tree", "map", "checkpoint", "autograd.Function")


def right(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() + 1) * 1.5


def wrong(x: torch.Tensor) -> torch.Tensor:
    return right(x) * FAULT


def rows(seed: int = 0) -> torch.Tensor:
    return torch.rand(16, 4, generator=torch.Generator().manual_seed(seed)) + 0.1


@pytest.mark.parametrize("name", CASES)
def test_fault_in_a_body_is_found(name: str) -> None:
    function = CASES[name].function
    program = Program(lambda x: function(right, x), rows())
    assert not program.judge(program.native).finding
    with plain_operators():
        faulty = as_arrays(flatten_tensors(function(wrong, rows())))
    assert faulty.keys() == program.native.keys()
    assert program.judge(faulty).finding


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_fault_in_a_gradient_is_found(name: str) -> None:
    def gradient(body: Body) -> Callable[[torch.Tensor], torch.Tensor]:
        def run(x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                results = flatten_tensors(CASES[name].function(body, x)).values()
                total = sum(result.sum() for result in results if result.is_floating_point())
                return torch.autograd.grad(total, x)[0]  # type: ignore[arg-type]

        return run

    program = Program(gradient(right), rows())
    assert program.tape.nodes
    assert not program.judge(program.native).finding
    with plain_operators():
        faulty = gradient(wrong)(rows())
    assert program.judge({"output": faulty.numpy()}).finding


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.compiles])
def test_compiled_operators_pass_on_random_inputs(name: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(CASES[name].function, backend="aot_eager")
    for seed in (1, 2):
        program = Program(lambda x: CASES[name].function(right, x), rows(seed))
        with torch.no_grad():
            assert not program.judge(as_arrays(flatten_tensors(compiled(right, rows(seed))))).finding


@pytest.mark.parametrize("name", ["scan tree", "map", "cond mapped", "while_loop"])
def test_plain_operators_return_the_structure_of_eager(name: str) -> None:
    with operators_of_eager():
        eager = CASES[name].function(right, rows())
    with plain_operators() as plain:
        found = CASES[name].function(right, rows())
    assert plain.called
    assert torch.utils._pytree.tree_structure(found) == torch.utils._pytree.tree_structure(eager)


def test_loop_that_never_runs_returns_copies_in_the_structure_of_its_body() -> None:
    start = {"i": torch.tensor(5), "x": rows()}
    with plain_operators():
        (end,) = while_loop(lambda s: s["i"] < 0, lambda s: ({"i": s["i"] + 1, "x": s["x"].sin()},), (start,))
    assert end["x"].equal(start["x"])
    assert end["x"] is not start["x"]


def test_operators_are_put_back() -> None:
    before = type(torch.ops.higher_order.cond).__call__
    with pytest.raises(ZeroDivisionError), plain_operators():
        raise ZeroDivisionError
    assert type(torch.ops.higher_order.cond).__call__ is before
