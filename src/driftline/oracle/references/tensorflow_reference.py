"""The reference of TensorFlow programs: an eager run, operation by operation, and a float64 run of the graph.

TensorFlow fixes dtypes when an operation is made, so the float64 program is made from the graph: variables are frozen,
and every small float type in the graph (attributes, constants, library functions) is replaced by double. If a kernel
has no double version, or an operation has a fixed output type, the import fails and there is no float64 run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from driftline.backends.tensorflow import Traced, call_on_arrays
from driftline.core.tensors import Arrays
from driftline.core.text import first_line
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.storage import kept
from driftline.programs.opened import OpenedProgram

# Operations that read the bits of a float or draw random numbers: their results differ with the float's width.
_WIDTH_MATTERS = ("Bitcast", "DecodeRaw", "NextAfter", "Random", "Quant", "Multinomial", "TruncatedNormal")


class TensorFlowReference:
    """Runs a TensorFlow program eagerly, and its graph in float64."""

    def __init__(self, program: OpenedProgram) -> None:
        self._program = program
        self._promoted: _Float64Graph | None = None

    def native(self, arrays: Arrays) -> Arrays:
        """Run the program eagerly in its own dtypes."""
        self._program.reseed()
        return call_on_arrays(self._program.live, arrays)

    def exact(self, arrays: Arrays) -> Arrays:
        """Run the program's graph in float64. Raises `NoExactReference` if that is not possible."""
        return self._in_float64(lambda graph: graph.run(arrays))

    def stored(self, arrays: Arrays, storage: str, seed: int) -> Arrays:
        """Run the graph in float64 with values kept in the `storage` format."""
        return self._in_float64(lambda graph: graph.run_stored(arrays, storage, seed))

    def _in_float64(self, run: Callable[[_Float64Graph], Arrays]) -> Arrays:
        try:
            if self._promoted is None:
                self._promoted = _Float64Graph(self._program)
            return run(self._promoted)
        except NoExactReference:
            raise
        except Exception as error:
            words = f"{type(error).__name__}: {first_line(str(error), 120)}"
            raise NoExactReference(f"the program has no float64 run ({words})") from error


class _Float64Graph:
    """The program's graph in float64, in a session without optimisations."""

    def __init__(self, program: OpenedProgram) -> None:
        import tensorflow as tf
        from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

        traced = Traced(program)
        if operation := traced.operation_like(*_WIDTH_MATTERS):
            raise NoExactReference(f"{operation} has another meaning in float64")
        frozen = convert_variables_to_constants_v2(traced.concrete)
        definition = frozen.graph.as_graph_def()
        promote_to_float64(definition)
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(definition, name="")
        quiet = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        quiet.graph_options.rewrite_options.disable_meta_optimizer = True
        quiet.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
        self._graph = graph
        self._session = tf.compat.v1.Session(graph=graph, config=quiet)
        # Freezing removes arguments, but keeps the order of the others.
        self._inputs = dict(zip(traced.inputs, (tensor.name for tensor in frozen.inputs), strict=True))
        self._outputs = dict(zip(traced.outputs, (tensor.name for tensor in frozen.outputs), strict=True))

    def run(self, arrays: Arrays) -> Arrays:
        feed = {tensor: arrays[name] for name, tensor in self._inputs.items()}
        results: dict[str, Any] = self._session.run(self._outputs, feed)
        return {name: np.asarray(value) for name, value in results.items()}

    def run_stored(self, arrays: Arrays, storage: str, seed: int) -> Arrays:
        """Run operation by operation, keeping the result of each in fewer bits (`storage`)."""
        rng = np.random.default_rng(seed)
        values: dict[str, Any] = {tensor: arrays[name] for name, tensor in self._inputs.items()}
        for operation in self._graph.get_operations():
            if any(tensor.name not in values for tensor in operation.outputs):
                given = {tensor: values[tensor.name] for tensor in operation.inputs}
                made = self._session.run(list(operation.outputs), given)
                values.update(zip((tensor.name for tensor in operation.outputs), made, strict=True))
            for tensor in operation.outputs:
                value = np.asarray(values[tensor.name])
                if value.dtype == np.float64:
                    constant = operation.type == "Const"
                    values[tensor.name] = kept(value, storage, rng, operator=operation.type, constant=constant)
        return {name: np.asarray(values[tensor]) for name, tensor in self._outputs.items()}


def promote_to_float64(definition: Any) -> None:
    """Replace the small float and complex types in a graph, its constants and its functions by 64-bit types, in
    place."""
    import tensorflow as tf

    double, half = tf.float64.as_datatype_enum, (tf.float32, tf.float16, tf.bfloat16)
    wider = {dtype.as_datatype_enum: double for dtype in half}
    wider[tf.complex64.as_datatype_enum] = tf.complex128.as_datatype_enum
    for function in definition.library.function:
        for argument in (*function.signature.input_arg, *function.signature.output_arg):
            argument.type = wider.get(argument.type, argument.type)
            argument.ClearField("experimental_full_type")
            argument.ClearField("handle_data")
    for node in _nodes(definition):
        node.ClearField("experimental_type")
        for value in node.attr.values():
            kind = value.WhichOneof("value")
            if kind == "type":
                value.type = wider.get(value.type, value.type)
            elif kind == "list":
                value.list.type[:] = [wider.get(dtype, dtype) for dtype in value.list.type]
            elif kind == "tensor" and value.tensor.dtype in wider:
                array = tf.make_ndarray(value.tensor)
                dtype = tf.as_dtype(wider[value.tensor.dtype]).as_numpy_dtype
                value.tensor.CopyFrom(tf.make_tensor_proto(array.astype(dtype), shape=array.shape))


def _nodes(definition: Any) -> Iterator[Any]:
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def
