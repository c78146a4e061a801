"""TensorFlow, for programs written by a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from driftline.backends.tensorflow import in_eager_mode, restored_variables, tensor_from_array
from driftline.core.tensors import DTYPES, Array, Shape
from driftline.generate.authored.language import Language, is_inexact, writes_numbers


class TensorFlowLanguage(Language):
    form = "tensorflow"
    head = "import tensorflow as tf"

    def is_tensor(self, leaf: Any) -> bool:
        return isinstance(leaf, (tf.Tensor, np.ndarray))

    def is_ordinary(self, tensor: Any) -> bool:
        return self._dtype(tensor) in DTYPES

    def call(self, model: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        with in_eager_mode(), restored_variables(model):
            return model(*(tensor_from_array(self.array(one)) if self.is_tensor(one) else one for one in inputs))

    def array(self, tensor: Any) -> Array:
        return np.asarray(tensor if isinstance(tensor, np.ndarray) else tensor.numpy())

    def resized(self, tensor: Any, shape: Shape) -> Array:
        array = self.array(tensor)
        return np.resize(array, shape) if array.size else np.ones(shape, array.dtype)

    def example(self, tensor: Any) -> str:
        array, dtype = self.array(tensor), self._dtype(tensor)
        if writes_numbers(dtype, array.size):
            return f"tf.constant({array.tolist()}, tf.{dtype}, {list(array.shape)})"
        return f"tf.{'ones' if is_inexact(dtype) else 'zeros'}({list(array.shape)}, tf.{dtype})"

    def _dtype(self, tensor: Any) -> str:
        name: str = tensor.dtype.name
        return name
