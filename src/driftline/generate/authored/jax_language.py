"""JAX, for programs written by a language model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from driftline.backends._jax import precision
from driftline.core.tensors import DTYPES, Array, Shape
from driftline.generate.authored.language import Language, is_inexact, writes_numbers
from driftline.generate.emit_jax import jnp_dtype


class JaxLanguage(Language):
    form = "jax"
    head = "import jax.numpy as jnp"

    def before_loading(self) -> None:
        wide = os.environ.get("JAX_ENABLE_X64", "").lower() in ("1", "true", "t", "yes", "y", "on")
        jax.config.update("jax_enable_x64", wide)

    def is_tensor(self, leaf: Any) -> bool:
        return isinstance(leaf, (jax.Array, np.ndarray))

    def is_ordinary(self, tensor: Any) -> bool:
        return str(tensor.dtype) in DTYPES

    def call(self, model: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        arrays = {str(at): np.asarray(leaf) for at, leaf in enumerate(inputs) if self.is_tensor(leaf)}
        with precision(bool(jax.config.jax_enable_x64), arrays):
            return model(*(jnp.asarray(leaf) if self.is_tensor(leaf) else leaf for leaf in inputs))

    def array(self, tensor: Any) -> Array:
        return np.asarray(tensor)

    def resized(self, tensor: Any, shape: Shape) -> Array:
        array = np.asarray(tensor)
        return np.resize(array, shape) if array.size else np.ones(shape, array.dtype)

    def example(self, tensor: Any) -> str:
        array = np.asarray(tensor)
        dtype = f"dtype=jnp.{jnp_dtype(array.dtype.name)})"
        if writes_numbers(array.dtype.name, array.size):
            return f"jnp.asarray({array.tolist()}, {dtype}"
        return f"jnp.{'ones' if is_inexact(array.dtype.name) else 'zeros'}({array.shape}, {dtype}"
