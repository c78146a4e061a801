"""The programs of the conformance suite: small source texts, each with a factory `program`. Nothing heavy is imported."""
# ruff: noqa: E501 (a program on one line reads better than one that is wrapped)

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import dedent, indent

from driftline.core.program import SourceBundle


@dataclass(frozen=True)
class SuiteProgram:
    """One program of the suite. A backend that does not support the dtype `needs` may decline it."""

    name: str
    framework: str
    text: str
    needs: str = ""

    @property
    def bundle(self) -> SourceBundle:
        return SourceBundle(f"{self.name}.py", "program", {f"{self.name}.py": self.text})


def legitimate(frameworks: Iterable[str]) -> list[SuiteProgram]:
    """Programs that a backend must run correctly or decline."""
    return [program for framework in frameworks for program in _LEGITIMATE[framework]]


def hard(framework: str) -> SuiteProgram:
    """Return a program that many compilers do not support: a backend may decline it, but not crash on it."""
    return _HARD[framework]


def failing(framework: str) -> SuiteProgram:
    """Return a program that raises when it is run, because its shapes do not match."""
    return _FAILING[framework]


def _torch(name: str, body: str, inputs: str, needs: str = "") -> SuiteProgram:
    return _function(name, "torch", "import torch", body, inputs, needs)


def _tensorflow(name: str, body: str, inputs: str, needs: str = "") -> SuiteProgram:
    return _function(name, "tensorflow", "import numpy as np\nimport tensorflow as tf", body, inputs, needs)


def _jax(name: str, body: str, inputs: str, needs: str = "") -> SuiteProgram:
    return _function(name, "jax", "import jax\nimport jax.numpy as jnp\nimport numpy as np", body, inputs, needs)


def _function(name: str, framework: str, imports: str, body: str, inputs: str, needs: str) -> SuiteProgram:
    signature, _, statements = dedent(body).strip().partition("\n")
    text = (
        f"{imports}\n\n\ndef function({signature}):\n{indent(dedent(statements), '    ')}\n\n\n"
        f"def program():\n    return function, ({inputs},)\n"
    )
    return SuiteProgram(f"{framework}_{name}", framework, text, needs)


def _onnx(name: str, nodes: str, inputs: str, outputs: str, constants: str = "", needs: str = "") -> SuiteProgram:
    """Return an ONNX program. `inputs` and `outputs` map names to arrays; outputs use only their dtype and shape."""
    text = f"""\
import numpy as np
import onnx
from onnx import helper, numpy_helper


def node(*args, **attributes):
    return helper.make_node(*args, **attributes)


def value(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def program():
    rng = np.random.default_rng(0)
    inputs = {inputs}
    outputs = {outputs}
    constants = {constants or "{}"}
    graph = helper.make_graph(
        [{nodes}],
        "suite",
        [value(name, array) for name, array in inputs.items()],
        [value(name, array) for name, array in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 18)]
    if any(n.domain for n in graph.node):
        opsets.append(helper.make_opsetid("driftline.testing", 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), inputs
"""
    return SuiteProgram(f"onnx_{name}", "onnx", text, needs)


_FLOATS = ("float64", "float32", "float16")
_INTEGERS = ("int64", "int32", "int8", "uint8")

_TORCH = [
    *(
        _torch(
            f"elementwise_{dtype}",
            "x\nreturn torch.tanh(x) * 2 + x.abs()",
            f"torch.linspace(-2, 2, 24).reshape(2, 12).to(torch.{dtype})",
            dtype,
        )
        for dtype in (*_FLOATS, "bfloat16")
    ),
    *(
        _torch(
            f"elementwise_{dtype}",
            "x\nreturn (x + 3) * x, x // 2",
            f"(torch.arange(1, 13) % 7).reshape(3, 4).to(torch.{dtype})",  # no overflow: this is about the adapter
            dtype,
        )
        for dtype in _INTEGERS
    ),
    _torch(
        "bool",
        "x, y\nreturn x & ~y, (x | y).any(1)",
        "torch.tensor([[True, False, True]]), torch.tensor([[False, False, True]])",
        "bool",
    ),
    _torch("compare", "x\nreturn torch.where(x > 0, x, -x), x > 0.5", "torch.linspace(-1, 1, 10)"),
    _torch("matmul_softmax", "x, w\nreturn torch.softmax(x @ w, -1)", "torch.randn(3, 5), torch.randn(5, 4)"),
    SuiteProgram(
        "torch_conv",
        "torch",
        "import torch\n\n\ndef program():\n    return torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU()).eval(), (torch.randn(1, 2, 8, 8),)\n",
    ),
    _torch("reduction", "x\nreturn x.sum(1), x.mean((0, 2)), x.amax(-1, keepdim=True)", "torch.randn(3, 4, 5)"),
    _torch("several_outputs", "x\nreturn {'double': x + x, 'parts': (x.sin(), [x.cos()])}", "torch.randn(4)"),
    _torch("zero_d", "x\nreturn x.exp() + 1", "torch.tensor(0.5)"),
    _torch("empty", "x\nreturn x * 2 + 1, torch.cat([x, x], 1)", "torch.zeros(0, 3)"),
    _torch("unused_input", "x, unused, y\nreturn x - y", "torch.ones(3), torch.zeros(2), torch.full((3,), 0.25)"),
    _torch(
        "nested_input",
        "batch, flag\nreturn batch['a'] + batch['b'] if flag else batch['a']",
        "{'a': torch.randn(3), 'b': torch.randn(3)}, True",
    ),
    _torch("views", "x\nreturn x.t()[1:], x[:, ::2].contiguous()", "torch.randn(4, 6)"),
    _torch(
        "special_values",
        "x\nreturn x + 1, x.isnan()",
        "torch.tensor([float('nan'), float('inf'), -float('inf'), -0.0, 3.4e38])",
    ),
]

_ONNX = [
    *(
        _onnx(
            f"elementwise_{dtype}",
            "node('Mul', ['x', 'x'], ['s']), node('Add', ['s', 'x'], ['y'])",
            f"{{'x': np.linspace(-2, 2, 24).reshape(2, 12).astype('{dtype}')}}",
            f"{{'y': np.zeros((2, 12), '{dtype}')}}",
            needs=dtype,
        )
        for dtype in (*_FLOATS, "int64", "int32")
    ),
    _onnx(
        "bool",
        "node('And', ['x', 'y'], ['both']), node('Not', ['both'], ['z'])",
        "{'x': np.array([True, False, True]), 'y': np.array([True, True, False])}",
        "{'z': np.zeros(3, bool)}",
        needs="bool",
    ),
    _onnx(
        "matmul_softmax",
        "node('MatMul', ['x', 'w'], ['m']), node('Softmax', ['m'], ['y'], axis=-1)",
        "{'x': rng.standard_normal((3, 5)).astype('float32')}",
        "{'y': np.zeros((3, 4), 'float32')}",
        "{'w': rng.standard_normal((5, 4)).astype('float32')}",
    ),
    _onnx(
        "conv",
        "node('Conv', ['x', 'w', 'b'], ['c'], pads=[1, 1, 1, 1]), node('Relu', ['c'], ['y'])",
        "{'x': rng.standard_normal((1, 2, 8, 8)).astype('float32')}",
        "{'y': np.zeros((1, 4, 8, 8), 'float32')}",
        "{'w': rng.standard_normal((4, 2, 3, 3)).astype('float32'), 'b': rng.standard_normal(4).astype('float32')}",
    ),
    _onnx(
        "reduction",
        "node('ReduceSum', ['x', 'axes'], ['y'], keepdims=0), node('ReduceMax', ['x', 'axes'], ['z'], keepdims=1)",
        "{'x': rng.standard_normal((3, 4, 5)).astype('float32')}",
        "{'y': np.zeros((3, 5), 'float32'), 'z': np.zeros((3, 1, 5), 'float32')}",
        "{'axes': np.array([1])}",
    ),
    _onnx("zero_d", "node('Exp', ['x'], ['y'])", "{'x': np.array(0.5, 'float32')}", "{'y': np.array(0, 'float32')}"),
    _onnx(
        "empty",
        "node('Add', ['x', 'x'], ['y'])",
        "{'x': np.zeros((0, 3), 'float32')}",
        "{'y': np.zeros((0, 3), 'float32')}",
    ),
    _onnx(
        "unused_input",
        "node('Neg', ['x'], ['y'])",
        "{'unused': np.zeros(2, 'float32'), 'x': np.ones(3, 'float32')}",
        "{'y': np.zeros(3, 'float32')}",
    ),
    _onnx(
        "special_values",
        "node('Add', ['x', 'x'], ['y']), node('IsNaN', ['x'], ['z'])",
        "{'x': np.array([np.nan, np.inf, -np.inf, -0.0, 1.0], 'float32')}",
        "{'y': np.zeros(5, 'float32'), 'z': np.zeros(5, bool)}",
    ),
]

_TENSORFLOW = [
    *(
        _tensorflow(
            f"elementwise_{dtype}",
            "x\nreturn x * x + x",
            f"tf.constant(np.linspace(-2, 2, 24).reshape(2, 12).astype('{dtype}'))",
            dtype,
        )
        for dtype in (*_FLOATS, "int64", "int32")
    ),
    _tensorflow(
        "bool", "x, y\nreturn tf.logical_and(x, y)", "tf.constant([True, False]), tf.constant([True, True])", "bool"
    ),
    _tensorflow(
        "matmul_softmax",
        "x, w\nreturn tf.nn.softmax(x @ w)",
        "tf.constant(np.linspace(-1, 1, 15).reshape(3, 5).astype('float32')), tf.constant(np.linspace(1, -1, 20).reshape(5, 4).astype('float32'))",
    ),
    _tensorflow(
        "conv",
        "x, w\nreturn tf.nn.relu(tf.nn.conv2d(x, w, 1, 'SAME'))",
        "tf.constant(np.linspace(-1, 1, 128).reshape(1, 8, 8, 2).astype('float32')), tf.constant(np.linspace(-1, 1, 72).reshape(3, 3, 2, 4).astype('float32'))",
    ),
    _tensorflow(
        "reduction",
        "x\nreturn tf.reduce_sum(x, 1), tf.reduce_max(x, -1, keepdims=True)",
        "tf.constant(np.linspace(-1, 1, 60).reshape(3, 4, 5).astype('float32'))",
    ),
    _tensorflow(
        "several_outputs",
        "x\nreturn {'double': x + x, 'parts': (tf.sin(x), tf.cos(x))}",
        "tf.constant([0.1, 0.2, 0.3])",
    ),
    _tensorflow("zero_d", "x\nreturn tf.exp(x) + 1", "tf.constant(0.5)"),
    _tensorflow("empty", "x\nreturn x * 2 + 1", "tf.zeros((0, 3))"),
    _tensorflow("unused_input", "x, unused, y\nreturn x - y", "tf.ones(3), tf.zeros(2), tf.fill([3], 0.25)"),
]

_JAX = [
    *(
        _jax(
            f"elementwise_{dtype}",
            "x\nreturn x * x + x",
            f"jnp.asarray(np.linspace(-2, 2, 24).reshape(2, 12).astype('{dtype}'))",
            dtype,
        )
        for dtype in ("float32", "float16", "int32")
    ),
    _jax("bool", "x, y\nreturn x & y, ~x", "jnp.array([True, False]), jnp.array([True, True])", "bool"),
    _jax(
        "matmul_softmax",
        "x, w\nreturn jax.nn.softmax(x @ w)",
        "jnp.linspace(-1, 1, 15).reshape(3, 5), jnp.linspace(1, -1, 20).reshape(5, 4)",
    ),
    _jax(
        "conv",
        "x, w\nreturn jax.nn.relu(jax.lax.conv(x, w, (1, 1), 'SAME'))",
        "jnp.linspace(-1, 1, 128).reshape(1, 2, 8, 8), jnp.linspace(-1, 1, 72).reshape(4, 2, 3, 3)",
    ),
    _jax("reduction", "x\nreturn x.sum(1), x.max(-1, keepdims=True)", "jnp.linspace(-1, 1, 60).reshape(3, 4, 5)"),
    _jax(
        "several_outputs",
        "x\nreturn {'double': x + x, 'parts': (jnp.sin(x), jnp.cos(x))}",
        "jnp.array([0.1, 0.2, 0.3])",
    ),
    _jax("zero_d", "x\nreturn jnp.exp(x) + 1", "jnp.array(0.5)"),
    _jax("empty", "x\nreturn x * 2 + 1", "jnp.zeros((0, 3))"),
    _jax("unused_input", "x, unused, y\nreturn x - y", "jnp.ones(3), jnp.zeros(2), jnp.full(3, 0.25)"),
]

_LEGITIMATE = {"torch": _TORCH, "onnx": _ONNX, "tensorflow": _TENSORFLOW, "jax": _JAX}

_HARD = {
    "torch": _torch("hard", "x\nreturn torch.nonzero(x) if x.sum().item() > 0 else torch.unique(x)", "torch.tensor([0.0, 1.0, 2.0])"),
    "onnx": _onnx("hard", "node('NoSuchOperator', ['x'], ['y'], domain='driftline.testing')",
                  "{'x': np.ones(3, 'float32')}", "{'y': np.ones(3, 'float32')}"),
    "tensorflow": _tensorflow("hard", "x\nreturn tf.py_function(lambda v: v + 1, [x], tf.float32)", "tf.ones(3)"),
    "jax": _jax("hard", "x\nreturn jax.pure_callback(lambda v: np.asarray(v) + 1, jax.ShapeDtypeStruct(x.shape, x.dtype), x)", "jnp.ones(3)"),
}  # fmt: skip

_FAILING = {
    "torch": _torch("failing", "x, y\nreturn (x @ y).relu()", "torch.ones(2, 3), torch.ones(2, 3)"),
    "onnx": _onnx("failing", "node('Reshape', ['x', 'shape'], ['y'])",
                  "{'x': np.ones(6, 'float32'), 'shape': np.array([4, 2])}", "{'y': np.ones((4, 2), 'float32')}"),
    "tensorflow": _tensorflow("failing", "x, shape\nreturn tf.reshape(x, shape) * 2", "tf.ones(6), tf.constant([4, 2])"),
    "jax": _jax("failing", "x, y\nreturn x @ y", "jnp.ones((2, 3)), jnp.ones((2, 3))"),
}  # fmt: skip
