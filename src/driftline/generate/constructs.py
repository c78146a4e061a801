"""The generator `constructs`: language constructs that are not operators, written as text: branches, loops, training
steps, small floats.

An arm is a construct; programs differ in sizes and in the expressions inside. The programs have no graph, so a failure
is reported without reduction.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from driftline.core.tensors import TensorSpec
from driftline.generate.base import Blueprint, Generator, GeneratorRequest, NoProgram
from driftline.generate.operator import THRESHOLDS, Draw
from driftline.inputs.plan import InputPlan

_LARGE_SHARE = 0.2
_HEADS = {
    "torch": "import torch\n",
    "jax": 'import jax\nimport jax.numpy as jnp\nfrom jax import lax\n\njax.config.update("jax_enable_x64", True)\n',
}
_EXAMPLES = {"torch": "torch.zeros({shape}, dtype=torch.{dtype})", "jax": "jnp.zeros({shape}, dtype=jnp.{dtype})"}
# What is computed inside is as plain as can be: an operator that is wrong is found by itself, under its own name.
_INSIDE = ("{0} * 2.0 - 0.5", "({0} + 1.0) * {0}", "1.0 - {0}", "{0} * {0}")


@dataclass(frozen=True)
class _Written:
    """The body of the function `model`, and the dtypes and shapes of its inputs."""

    lines: Sequence[str]
    inputs: Mapping[str, tuple[str, tuple[int, ...]]]  # name -> dtype, shape


class Sketcher:
    """The random choices for a construct: sizes and the expressions inside."""

    def __init__(self, form: str, draw: Draw) -> None:
        self.form, self.draw = form, draw
        self._large = draw.chance(_LARGE_SHARE)

    def size(self) -> int:
        """Draw the size of an axis, which is long if the program is to have long ones."""
        return self.draw.choice(THRESHOLDS) if self._large else self.draw.integer(2, 17)

    def inside(self, value: str) -> str:
        """Return an expression that computes something from `value`."""
        return f"({self.draw.choice(_INSIDE).format(value)})"


_Construct = Callable[[Sketcher], _Written]
CONSTRUCTS: dict[str, dict[str, _Construct]] = {"torch": {}, "jax": {}}


def _construct(form: str) -> Callable[[_Construct], _Construct]:
    def added(function: _Construct) -> _Construct:
        CONSTRUCTS[form][function.__name__.removeprefix(f"{form}_")] = function
        return function

    return added


class Constructs(Generator):
    name = "constructs"
    needs_framework = False
    forms: ClassVar[tuple[str, ...]] = ("torch", "jax")

    def arms(self, form: str) -> Sequence[str]:
        return sorted(CONSTRUCTS.get(form, ()))

    def make(self, request: GeneratorRequest) -> Blueprint:
        construct = CONSTRUCTS.get(request.form, {}).get(request.arm)
        if construct is None:
            raise NoProgram(f"there is no construct {request.arm} in {request.form}")
        rng = random.Random(f"{request.seed}/{request.form}/{request.arm}/{request.number}")
        written = construct(Sketcher(request.form, Draw(rng)))
        first = next(iter(written.inputs.values()))[0]
        return Blueprint(
            form=request.form,
            content=_text(request.form, written),
            inputs=tuple(InputPlan(TensorSpec(name, *kind)) for name, kind in written.inputs.items()),
            operators=(request.arm,),
            coverage=((request.arm, first),),
        )


def _text(form: str, written: _Written) -> str:
    names = ", ".join(written.inputs)
    examples = [_EXAMPLES[form].format(dtype=dtype, shape=shape) for dtype, shape in written.inputs.values()]
    lines = [_HEADS[form], "", f"def model({names}):", *(f"    {line}" for line in written.lines)]
    lines += ["", "", "def program():", f"    return model, ({''.join(text + ', ' for text in examples)})", ""]
    return "\n".join(lines)


def _floats(*shape: int) -> tuple[str, tuple[int, ...]]:
    return "float32", shape


# -- torch -------------------------------------------------------------------------------------------------------------


@_construct("torch")
def torch_counted_loop(s: Sketcher) -> _Written:
    """Write a loop that is unrolled, with a value carried from step to step."""
    lines = ["carried = y", f"for step in range({s.draw.integer(2, 5)}):"]
    lines += [f"    carried = carried * 0.5 + {s.inside('x')} * (step + 1)", "return carried, x + carried"]
    size = s.size()
    return _Written(lines, {"x": _floats(2, size), "y": _floats(2, size)})


def _step(s: Sketcher, update: Sequence[str], state: Sequence[str]) -> _Written:
    """Write a training step: the loss, its gradient, and the weights after the optimiser's update."""
    width, out = s.size(), s.draw.integer(1, 9)
    lines = [
        "def loss_of(w, b):",
        "    return (x @ w + b - y).square().mean()",
        "",
        "(dw, db), loss = torch.func.grad_and_value(loss_of, argnums=(0, 1))(w, b)",
        *update,
    ]
    inputs = {"x": _floats(4, width), "y": _floats(4, out), "w": _floats(width, out), "b": _floats(out)}
    return _Written(lines, inputs | {name: _floats(width, out) for name in state})


@_construct("torch")
def torch_step_of_sgd(s: Sketcher) -> _Written:
    rate = s.draw.choice((0.1, 0.01))
    if s.draw.chance(0.5):
        return _step(s, [f"return w - {rate} * dw, b - {rate} * db, loss"], ())
    update = [f"m = 0.9 * m + dw + {rate} * w", f"return w - {rate} * m, b - {rate} * db, m, loss"]
    return _step(s, update, ("m",))


@_construct("torch")
def torch_step_of_adam(s: Sketcher) -> _Written:
    update = [
        "m = 0.9 * m + 0.1 * dw",
        "v = 0.999 * v.abs() + 0.001 * dw * dw",
        "w = w - 0.01 * (m / 0.1) / ((v / 0.001).sqrt() + 0.0078125)",
        "return w, m, v, b - 0.01 * db, loss",
    ]
    return _step(s, update, ("m", "v"))


@_construct("torch")
def torch_weights_overwritten(s: Sketcher) -> _Written:
    """Write an optimiser's update in place, as `torch.optim` does."""
    lines = ["m.mul_(0.9).add_(g, alpha=0.1)", "w.add_(m, alpha=-0.5)", f"return {s.inside('w')}, m + 1.0"]
    size = s.size()
    return _Written(lines, {name: _floats(2, size) for name in ("w", "g", "m")})


@_construct("torch")
def torch_write_through_views(s: Sketcher) -> _Written:
    size = s.size()
    lines = [
        "base = x * 2.0",
        f"part = base[1:].{s.draw.choice(('t()', 'view(-1)', 'transpose(0, 1)', 'narrow(0, 0, 1)'))}",
        f"part.{s.draw.choice(('mul_(3.0)', 'add_(1.0)'))}",
        f"base[0].copy_({s.inside('base[-1]')})",
        "return base, part, base.sum()",
    ]
    return _Written(lines, {"x": _floats(3, size)})


@_construct("torch")
def torch_outputs_that_share_memory(s: Sketcher) -> _Written:
    size = s.size()
    lines = [f"made = {s.inside('x')}", "return made, made.t(), made[0], x, x[1:], made.view(-1)"]
    return _Written(lines, {"x": _floats(2, size)})


@_construct("torch")
def torch_small_floats(s: Sketcher) -> _Written:
    kind = s.draw.choice(("float8_e4m3fn", "float8_e5m2"))
    lines = [
        f"low = x.clamp(-200.0, 200.0).to(torch.{kind})",
        "wide = low.to(torch.float32)",
        f"return wide, {s.inside('wide')} + x",
    ]
    return _Written(lines, {"x": _floats(3, s.size())})


@_construct("torch")
def torch_quantised_weights(s: Sketcher) -> _Written:
    width = s.size()
    lines = [
        "w = (q.to(torch.float32) - 3.0) * scale[:, None]",
        "levels = torch.clamp(torch.round(x * 16.0), -128, 127).to(torch.int8)",
        "return levels.to(torch.float32) @ w.t() * 0.0625",
    ]
    return _Written(lines, {"x": _floats(3, width), "q": ("int8", (5, width)), "scale": _floats(5)})


@_construct("torch")
def torch_spectrum(s: Sketcher) -> _Written:
    size = s.size()
    lines = ["z = torch.fft.rfft(x)", f"w = z * torch.conj(z) + {s.draw.choice(('1j', '2.0', '0.5j'))} * z"]
    return _Written([*lines, f"return torch.fft.irfft(w, n={size}), w.real, w.abs()"], {"x": _floats(2, size)})


@_construct("torch")
def torch_many_samples(s: Sketcher) -> _Written:
    size = s.size()
    lines = ["def one(a, b):", f"    return {s.inside('a')} * b.sum()", "", "return torch.vmap(one)(x, y)"]
    return _Written(lines, {"x": _floats(3, size), "y": _floats(3, 4)})


# -- JAX ---------------------------------------------------------------------------------------------------------------


@_construct("jax")
def jax_branch(s: Sketcher) -> _Written:
    lines = [f"return lax.cond(x.sum() > 0, lambda a: {s.inside('a')}, lambda a: {s.inside('a')} * 2.0, x) + 1.0"]
    return _Written(lines, {"x": _floats(3, s.size())})


@_construct("jax")
def jax_loop(s: Sketcher) -> _Written:
    steps = s.draw.integer(2, 6)
    lines = [
        "def body(state):",
        f"    return state[0] + 1, state[1] * 0.5 + {s.inside('x')}",
        "",
        f"return lax.while_loop(lambda state: state[0] < {steps}, body, (0, y))[1]",
    ]
    size = s.size()
    return _Written(lines, {"x": _floats(2, size), "y": _floats(2, size)})


@_construct("jax")
def jax_scan(s: Sketcher) -> _Written:
    lines = [
        "def step(carried, row):",
        f"    carried = carried * 0.5 + {s.inside('row')}",
        "    return carried, carried + row",
        "",
        "return lax.scan(step, y, x)",
    ]
    size = s.size()
    return _Written(lines, {"x": _floats(s.draw.integer(2, 6), size), "y": _floats(size)})


@_construct("jax")
def jax_many_samples(s: Sketcher) -> _Written:
    lines = [f"return jax.vmap(lambda a, b: {s.inside('a')} * b.sum())(x, y)"]
    return _Written(lines, {"x": _floats(3, s.size()), "y": _floats(3, 4)})


@_construct("jax")
def jax_gradient(s: Sketcher) -> _Written:
    lines = [f"return jax.grad(lambda a: ({s.inside('a')} * y).sum())(x)"]
    size = s.size()
    return _Written(lines, {"x": _floats(2, size), "y": _floats(2, size)})


@_construct("jax")
def jax_step_of_sgd(s: Sketcher) -> _Written:
    width, out = s.size(), s.draw.integer(1, 9)
    lines = [
        "def loss_of(w):",
        f"    return jnp.square({s.inside('(x @ w)')} - y).mean()",
        "",
        "loss, dw = jax.value_and_grad(loss_of)(w)",
        "return w - 0.1 * dw, loss",
    ]
    return _Written(lines, {"x": _floats(4, width), "y": _floats(4, out), "w": _floats(width, out)})
