"""Runs torch programs on XLA: torch.export, then torchax, which has a JAX function for each ATen operator.

torchax 0.0.13 names operator overloads that torch 2.13 no longer has; placeholders replace them during its import.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from driftline.backends._export import export, is_export_rejection
from driftline.backends._jax import precision
from driftline.backends._torch import flatten_outputs
from driftline.backends.base import Compiled, Runnable, Unsupported
from driftline.core.tensors import Arrays
from driftline.programs.live import is_tensor
from driftline.programs.opened import OpenedProgram

_OPERATOR_NAME = re.compile(r"aten\.\w+\.\w+\s*(\n|$)")
_OPERATORS = ("OpOverload", "OpOverloadPacket", "Operator")


def import_torchax() -> None:
    with _placeholders_for_missing_overloads():
        for name in ("torchax.export", "torchax.ops.jaten", "torchax.decompositions"):
            importlib.import_module(name)


def is_torchax_rejection(error: BaseException) -> bool:
    # torchax asserts that it knows an operator, and says nothing but its name when it does not; torch's interpreter
    # makes text of that, and adds where it was.
    said = next(iter(error.args), None) if isinstance(error, AssertionError) else None
    missing = type(said).__name__ in _OPERATORS or bool(_OPERATOR_NAME.match(str(said)))
    return missing or is_export_rejection(error)


def torchax_runner(program: OpenedProgram, settings: Mapping[str, Any]) -> Compiled:
    """Compile a program as a whole; `settings` are XLA's own."""
    import jax
    import jax.numpy as jnp
    import torch
    from torch.export.graph_signature import InputKind, OutputKind
    from torchax.decompositions import DECOMPOSITIONS
    from torchax.export import JaxInterpreter
    from torchax.ops.mappings import t2j_dtype

    from driftline.programs.torch_tensors import array_from_tensor

    captured = export(program)
    graph = captured.exported.run_decompositions().run_decompositions(DECOMPOSITIONS)
    for node in graph.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise Unsupported(f"{node.target}: XLA has a random generator of its own")
    stored = {**graph.state_dict, **graph.constants}

    class Interpreter(JaxInterpreter):  # type: ignore[misc]
        """Casts results to the dtype that torch gives: torchax leaves type promotion to JAX, whose rules differ."""

        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            expected = getattr(node.meta.get("val"), "dtype", None)
            return result.astype(t2j_dtype(expected)) if node.op == "call_function" and expected else result

    def whole(state: dict[str, Any], inputs: Sequence[Any]) -> list[Any]:
        given = iter(inputs)
        arguments = [
            next(given) if spec.kind is InputKind.USER_INPUT else state[spec.target]
            for spec in graph.graph_signature.input_specs
        ]
        results = Interpreter(graph.graph_module).run(*arguments, enable_io_processing=False)
        kinds = [spec.kind for spec in graph.graph_signature.output_specs]
        return [result for result, kind in zip(results, kinds, strict=True) if kind is OutputKind.USER_OUTPUT]

    with precision(True, {}):
        needed = {spec.target for spec in graph.graph_signature.input_specs if spec.target in stored}
        state = {name: jnp.asarray(array_from_tensor(stored[name])) for name in needed}
    compiled = jax.jit(whole, compiler_options=dict(settings) or None)

    def run(arrays: Arrays) -> Arrays:
        with precision(True, {}):
            results = iter(compiled(state, [jnp.asarray(arrays[name]) for name in captured.inputs]))
            return flatten_outputs({
                name: np.asarray(next(results)) if is_tensor(leaf) else leaf for name, leaf in captured.outputs.items()
            })  # fmt: skip

    def bare(arrays: Arrays) -> Callable[[], object]:
        with precision(True, {}):
            given = [jnp.asarray(arrays[name]) for name in captured.inputs]

        def called() -> object:
            with precision(True, {}):
                return jax.block_until_ready(compiled(state, given))

        return called

    return Runnable(run, bare)


@contextlib.contextmanager
def _placeholders_for_missing_overloads() -> Iterator[None]:
    """Inside the block, return a placeholder for every overload that torchax names and this torch has dropped."""
    from torch._ops import OpOverloadPacket

    original = OpOverloadPacket.__getattr__

    def lenient(packet: Any, name: str) -> Any:
        try:
            return original(packet, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return object()

    OpOverloadPacket.__getattr__ = lenient
    try:
        yield
    finally:
        OpOverloadPacket.__getattr__ = original
