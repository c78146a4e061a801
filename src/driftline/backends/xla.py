"""XLA through JAX. JAX programs run as they are; torch programs are exported and run through torchax.

Without 64-bit types JAX narrows wide inputs silently, so they are on when an input is wide, and for torch always;
otherwise the user's file decides. torchax 0.0.13 names operator overloads that torch 2.13 no longer has.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from driftline.backends.base import Backend, Compiled, Option, Options, Unsupported, option
from driftline.core.structure import flatten
from driftline.core.tensors import Arrays
from driftline.programs.live import LiveProgram, is_tensor
from driftline.programs.opened import OpenedProgram

_WIDE = ("float64", "int64", "uint64", "complex128")
_REJECTIONS = (  # Python that depends on values, which a compiler of whole programs does not see
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TracerArrayConversionError",
    "ConcretizationTypeError",
    "NonConcreteBooleanIndexError",
)


class Xla(Backend):
    name = "xla"
    accepts = ("source:jax", "source:torch", "torch")
    module = "jax"
    distribution = "jax"
    also_in = ("jaxlib",)
    install = "pip install jax torchax"
    options = {"jit": Option("compile the program as a whole, or run it operation by operation", ("on", "off"), "on")}

    def warm(self) -> None:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
        import jax.numpy  # noqa: F401

        if importlib.util.find_spec("torchax"):
            with _placeholders_for_missing_overloads():
                for name in ("torchax.export", "torchax.ops.jaten", "torchax.decompositions"):
                    importlib.import_module(name)

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import jax

        run = _jax_runner(program) if program.framework == "jax" else _torch_runner(program)
        if option(options, self, "jit") == "on":
            run(program.example)  # XLA compiles during the first call
            return run

        def operation_by_operation(arrays: Arrays) -> Arrays:
            with jax.disable_jit():
                return run(arrays)

        return operation_by_operation

    def is_rejection(self, error: BaseException) -> bool:
        from driftline.backends._export import is_export_rejection

        # torchax asserts that it knows an operator, and says nothing but its name when it does not
        missing = isinstance(error, AssertionError) and type(next(iter(error.args), None)).__name__ in _OPERATORS
        return super().is_rejection(error) or type(error).__name__ in _REJECTIONS or missing or is_export_rejection(error)


_OPERATORS = ("OpOverload", "OpOverloadPacket", "Operator")


def _jax_runner(program: OpenedProgram) -> Compiled:
    import jax

    live, wide = load_with_own_precision(program)
    compiled = jax.jit(lambda arrays: leaves_of(call(live, arrays)))

    def run(arrays: Arrays) -> Arrays:
        with precision(wide, arrays):
            return {name: np.asarray(leaf) for name, leaf in compiled(arrays).items()}

    return run


def load_with_own_precision(program: OpenedProgram) -> tuple[LiveProgram, bool]:
    """The program, and whether its file switches 64-bit types on. Another program's choice must not reach this one."""
    import jax

    default = os.environ.get("JAX_ENABLE_X64", "").lower() in ("1", "true", "t", "yes", "y", "on")
    jax.config.update("jax_enable_x64", default)
    live = program.live
    return live, bool(jax.config.jax_enable_x64)


def precision(wide: bool, arrays: Arrays) -> Any:
    """64-bit types on, if the program says so or an input would be narrowed without them."""
    import jax

    try:
        switch = jax.enable_x64
    except AttributeError:  # before jax 0.8
        from jax.experimental import enable_x64 as switch
    return switch(wide or any(array.dtype.name in _WIDE for array in arrays.values()))


def call(live: LiveProgram, arrays: Any) -> Any:
    import jax.numpy as jnp

    args, kwargs = live.call_arguments(arrays, jnp.asarray)
    return live.function(*args, **kwargs)


def leaves_of(result: Any) -> dict[str, Any]:
    """Every array of a result by name; Python numbers become arrays, and random keys the numbers behind them."""
    import jax
    import jax.numpy as jnp

    def plain(leaf: Any) -> Any:
        if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.key_data(leaf)
        return jnp.asarray(leaf)

    return {name: plain(leaf) for name, leaf in flatten(result, "output").items()}


def _torch_runner(program: OpenedProgram) -> Compiled:
    import jax
    import jax.numpy as jnp
    import torch
    from torch.export.graph_signature import InputKind, OutputKind
    from torchax.decompositions import DECOMPOSITIONS
    from torchax.export import JaxInterpreter
    from torchax.ops.mappings import t2j_dtype

    from driftline.backends._export import export
    from driftline.backends._torch import flatten_outputs
    from driftline.programs.torch_tensors import array_from_tensor

    exported, flat = export(program)
    graph = exported.run_decompositions().run_decompositions(DECOMPOSITIONS)
    for node in graph.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise Unsupported(f"{node.target}: XLA has a random generator of its own")
    stored = {**graph.state_dict, **graph.constants}

    class Interpreter(JaxInterpreter):  # type: ignore[misc]
        """torchax leaves promotion to JAX, which knows other rules than torch: results get the dtype torch gives."""

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
    compiled = jax.jit(whole)

    def run(arrays: Arrays) -> Arrays:
        with precision(True, {}):
            results = iter(compiled(state, [jnp.asarray(arrays[name]) for name in flat.inputs]))
            return flatten_outputs({
                name: np.asarray(next(results)) if is_tensor(leaf) else leaf for name, leaf in flat.outputs.items()
            })  # fmt: skip

    return run


@contextlib.contextmanager
def _placeholders_for_missing_overloads() -> Iterator[None]:
    """While torchax is imported, an overload that this torch has dropped is an object that no graph will ever contain."""
    from torch._ops import OpOverloadPacket

    original = OpOverloadPacket.__getattr__

    def lenient(packet: Any, name: str) -> Any:
        try:
            return original(packet, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return object()

    OpOverloadPacket.__getattr__ = lenient  # type: ignore[method-assign]
    try:
        yield
    finally:
        OpOverloadPacket.__getattr__ = original  # type: ignore[method-assign]
