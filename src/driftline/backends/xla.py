"""XLA through JAX. JAX programs run as they are; torch programs are exported and run through torchax.

Without 64-bit types JAX narrows wide inputs silently, so they are on when an input is wide, and for torch always;
otherwise the user's file decides.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

import numpy as np

from driftline.backends._jax import precision
from driftline.backends._torchax import import_torchax, is_torchax_rejection, torchax_runner
from driftline.backends.base import Backend, Compiled, Option, Options, option
from driftline.core.structure import flatten
from driftline.core.tensors import Arrays
from driftline.programs.live import LiveProgram
from driftline.programs.opened import OpenedProgram

_REJECTIONS = (  # Python that depends on values, which a compiler of whole programs does not see
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TracerArrayConversionError",
    "ConcretizationTypeError",
    "NonConcreteBooleanIndexError",
)


class Xla(Backend):
    name = "xla"
    arithmetic = "flush-to-zero"  # documented: XLA on a CPU takes subnormal numbers for zero
    batch = 20
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
            import_torchax()

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import jax

        run = _jax_runner(program) if program.framework == "jax" else torchax_runner(program)
        if option(options, self, "jit") == "on":
            run(program.example)  # XLA compiles during the first call
            return run

        def operation_by_operation(arrays: Arrays) -> Arrays:
            with jax.disable_jit():
                return run(arrays)

        return operation_by_operation

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or type(error).__name__ in _REJECTIONS or is_torchax_rejection(error)


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
