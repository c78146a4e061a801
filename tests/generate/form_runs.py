"""One operator as a one-node graph, run in each of its languages on chosen numbers. For `test_forms`."""

from __future__ import annotations

import json
import random
import warnings
import zlib
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from driftline.core.tensors import Array, numpy_dtype
from driftline.generate.emit_jax import emit_jax
from driftline.generate.emit_onnx import emit_onnx
from driftline.generate.emit_torch import emit_torch
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.generate.operator import Draw, Operator

KINDS = ("nan", "inf", "zero", "huge", "tiny", "edges", "extreme")  # of special values


def one_node(operator: Operator, dtype: str, seed: int, language: str) -> Graph | None:
    """A graph of that operator alone, the same for the same seed; None when no small shape fits it."""
    draw = Draw(random.Random(f"{operator.name}/{dtype}/{seed}"))
    for _ in range(300):
        first = TensorType(dtype, draw.shape(*operator.rank, most=40))
        if operator.takes(language, first):
            break
    else:
        return None
    needs, attributes = operator.draw(draw, first)
    leaves = [Leaf("input", first, operator.first_values)]
    for need in needs:
        weight = need.prefer == "parameter" and seed == 1 and need.type.dtype.startswith(("float", "bfloat"))
        leaves.append(Leaf("parameter" if weight else "input", need.type, need.values, seed=seed))
    outputs = tuple(operator.infer([leaf.type for leaf in leaves], attributes))
    node = Node(operator.name, tuple(range(len(leaves))), outputs, attributes)
    results = tuple(range(len(leaves), len(leaves) + len(outputs)))
    # As it comes back from a store: tuples have become lists
    return Graph.from_json(json.loads(json.dumps(Graph(tuple(leaves), (node,), results).to_json())))


def numbers(graph: Graph, kinds: Collection[str], edges: Sequence[float], seed: int) -> list[Array]:
    """Numbers for the inputs, with special values of these kinds in them."""
    name = graph.operators[0]
    rng = np.random.default_rng(zlib.crc32(f"{name}/{seed}".encode()))
    leaves = [graph.leaves[number] for number in graph.inputs]
    divided = any(leaf.values == "nonzero" for leaf in leaves)
    made = [_filled(leaf, kinds, edges, rng, divided) for leaf in leaves]
    return [np.abs(array) for array in made] if out_of_range(graph) else made


def out_of_range(graph: Graph) -> bool:
    """Whether it is a cast from float to integer: undefined where the integer cannot hold the number."""
    target = str(graph.nodes[0].attributes.get("to", ""))
    return target.startswith(("int", "uint")) and graph.leaves[0].type.dtype.startswith(("float", "bfloat"))


def _filled(leaf: Leaf, kinds: Collection[str], edges: Sequence[float], rng: Any, divided: bool) -> Array:
    dtype, shape = leaf.type.dtype, leaf.type.shape
    word, _, bound = leaf.values.partition(":")
    if dtype == "bool":
        made = rng.integers(0, 2, shape)
    elif word == "distinct":
        made = rng.permuted(np.resize(np.arange(int(bound)), (*shape[:-1], int(bound))), axis=-1)[..., : shape[-1]]
    elif word == "wrapped":
        made = rng.integers(-int(bound), int(bound), shape)
    elif bound:
        made = rng.integers(0, int(bound), shape)
    elif word in ("positive", "unit"):
        made = rng.uniform(0.1, 1.0, shape)
    elif dtype.startswith(("float", "bfloat", "complex")):
        made = np.where(rng.random(shape) < 0.3, rng.integers(-6, 7, shape) / 2, rng.standard_normal(shape) * 2)
        if dtype.startswith("complex"):
            made = made + 1j * rng.standard_normal(shape)
        else:
            made = _sprinkle(made, float_specials(dtype, kinds, edges), rng)
    else:
        made = rng.integers(0 if dtype.startswith("u") else -5, 6, shape)
        if "extreme" in kinds:
            limits = np.iinfo(dtype)
            # The least number divided by -1 is undefined, and ends a process that runs torch
            pool = [limits.max, 1, limits.max - 1] + ([] if divided else [limits.min, 0])
            made = _sprinkle(made.astype(dtype), [np.array(value, dtype=dtype) for value in pool], rng)
        if word == "nonzero":
            made = np.where(made == 0, np.ones_like(made), made)
    return np.asarray(made).astype(numpy_dtype(dtype))


def float_specials(dtype: str, kinds: Collection[str], edges: Sequence[float]) -> list[float]:
    import ml_dtypes

    limits = ml_dtypes.finfo(numpy_dtype(dtype))
    most, least = float(limits.max), float(limits.smallest_subnormal)
    pools: dict[str, Sequence[float]] = {
        "nan": (float("nan"),),
        "inf": (float("inf"), float("-inf")),
        "zero": (0.0, -0.0),
        "huge": (most, -most),
        "tiny": (least, -least, least * 3),
        "edges": [edge for edge in edges if abs(edge) <= most],
    }
    return [value for kind in pools if kind in kinds for value in pools[kind]]


def _sprinkle(made: Any, pool: Sequence[Any], rng: Any) -> Any:
    if not pool:
        return made
    chosen = np.array(pool)[rng.integers(0, len(pool), made.shape)]
    return np.where(rng.random(made.shape) < 0.5, chosen, made)


class Runner:
    """The forms of one graph, each read once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._made: dict[str, Any] = {}

    def run(self, language: str, inputs: Sequence[Array]) -> list[Array]:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            made: list[Array] = getattr(self, f"_{language}")(inputs)
        return made

    def _torch(self, inputs: Sequence[Array]) -> list[Array]:
        from driftline.programs.torch_tensors import array_from_tensor, tensor_from_array

        made = self._once("torch", lambda: _scope(emit_torch(self.graph))["program"]()[0])
        return [array_from_tensor(tensor) for tensor in made(*(tensor_from_array(array) for array in inputs))]

    def _onnx(self, inputs: Sequence[Array]) -> list[Array]:
        evaluator = self._once("onnx", self._evaluator)
        named = zip(evaluator.input_names, inputs, strict=True)
        return [np.asarray(array) for array in evaluator.run(None, dict(named))]

    def _evaluator(self) -> Any:
        import onnx

        from driftline.programs.onnx.evaluator import make_evaluator

        model = onnx.load_from_string(emit_onnx(self.graph))
        onnx.checker.check_model(model, full_check=True)
        return make_evaluator(model)

    def _jnp(self, inputs: Sequence[Array]) -> list[Array]:
        import jax
        import jax.numpy as jnp

        # One compilation of the whole instead of one for each step
        made = self._once("jnp", lambda: jax.jit(_scope(emit_jax(self.graph))["model"]))
        return [np.asarray(array) for array in made(*(jnp.asarray(array) for array in inputs))]

    def jnp_types(self) -> list[tuple[str, tuple[int, ...]]]:
        """What jnp says the results are, without running it."""
        import jax

        leaves = [self.graph.leaves[number].type for number in self.graph.inputs]
        examples = [jax.ShapeDtypeStruct(t.shape, numpy_dtype(t.dtype)) for t in leaves]
        made = _scope(emit_jax(self.graph))["model"]
        return [(spec.dtype.name, tuple(spec.shape)) for spec in jax.eval_shape(made, *examples)]

    def _once(self, key: str, make: Any) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def _scope(text: str) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    exec(text, scope)
    return scope
