"""JAX programs: operation by operation, and the same with 64-bit types on."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftline.core.structure import flatten
from driftline.core.tensors import Arrays
from driftline.oracle.references.base import NoExactReference
from driftline.programs.opened import OpenedProgram


class JaxReference:
    def __init__(self, program: OpenedProgram) -> None:
        self._live = program.live

    def native(self, arrays: Arrays) -> Arrays:
        import jax
        import jax.numpy as jnp

        with jax.disable_jit():
            args, kwargs = self._live.call_arguments(arrays, jnp.asarray)
            return _arrays(self._live.function(*args, **kwargs))

    def exact(self, arrays: Arrays) -> Arrays:
        import jax

        try:
            with jax.enable_x64(True):
                return self.native(arrays)
        except Exception as error:
            raise NoExactReference(f"the function does not run in float64 ({type(error).__name__})") from error


def _arrays(result: Any) -> Arrays:
    return {name: np.asarray(leaf) for name, leaf in flatten(result, "output").items()}
