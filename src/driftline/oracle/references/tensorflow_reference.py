"""TensorFlow programs: eager, operation by operation. There is no float64 run yet: graphs fix their dtypes."""

from __future__ import annotations

from driftline.backends.tensorflow import flatten_result, in_eager_mode
from driftline.core.tensors import Arrays
from driftline.oracle.references.base import NoExactReference
from driftline.programs.opened import OpenedProgram


class TensorFlowReference:
    def __init__(self, program: OpenedProgram) -> None:
        self._live = program.live

    def native(self, arrays: Arrays) -> Arrays:
        import tensorflow as tf

        with in_eager_mode():
            args, kwargs = self._live.call_arguments(arrays, tf.constant)
            return flatten_result(self._live.function(*args, **kwargs))

    def exact(self, arrays: Arrays) -> Arrays:
        raise NoExactReference("TensorFlow programs have no float64 run yet")
