"""TensorFlow: eager, which serves as the reference, and XLA through `tf.function(jit_compile=True)`.

Programs are Python functions, `tf.function` objects or Keras models. Importing takes seconds and starts no thread; the
first operation starts some, so nothing is run before workers are forked.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from driftline.backends.base import Backend, Behaviour, Compiled, Options, Unsupported
from driftline.backends.xla_dumps import ProcessDumps
from driftline.core.execution import Stage
from driftline.core.packages import TENSORFLOW, Installing
from driftline.core.script_call import ScriptCall
from driftline.core.structure import flatten
from driftline.core.tensors import Array, Arrays
from driftline.core.tracker import Tracker
from driftline.programs.live import LiveProgram
from driftline.programs.opened import OpenedProgram

TENSORFLOW_TRACKER = Tracker(
    "https://github.com/tensorflow/tensorflow/issues",
    (
        ("Issue type", "Bug"),
        ("Have you reproduced the bug with TensorFlow Nightly?", "No"),
        ("Source", "binary"),
        ("TensorFlow version", "{version}"),
        ("Custom code", "Yes"),
        ("OS platform and distribution", "{system}"),
        ("Python version", "{python}"),
        ("Current behavior?", "{description}"),
        ("Standalone code to reproduce the issue", "{reproducer}"),
        ("Relevant log output", "{output}"),
    ),
)


class TensorFlow(Backend):
    name = "tensorflow"
    start_seconds = 5.8
    preset = "quick"
    accepts = ("source:tensorflow",)
    module = "tensorflow"
    distribution = TENSORFLOW
    extra = "tensorflow"
    also_in = ("tensorflow-cpu", "tensorflow")
    installing = {"tensorflow-cpu": Installing(module="tensorflow")}
    tracker = TENSORFLOW_TRACKER
    mutates = True
    reference = True

    def warm(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        # Eager is what others are held against. Where a processor computes with halves, oneDNN's softmax of them loses
        # the NaN that an infinity makes.
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        live = program.live

        def run(arrays: Arrays) -> Arrays:
            return call_on_arrays(live, arrays)

        return run


class TensorFlowXla(TensorFlow):
    name = "tensorflow-xla"
    preset = "default"
    family = "tensorflow"
    mutates = False  # compiled code raises nothing for a bad index, and has a random generator of its own
    reference = False
    rungs = ("tensorflow",)
    sizes = False  # the graph is traced for the sizes of the example
    arithmetic = "flush-to-zero"  # documented: XLA on a CPU takes subnormal numbers for zero
    settings = r"xla_\w+"
    settings_words = "Flags of XLA go by their own names, as in xla_cpu_enable_fast_math=true."
    _dumps = ProcessDumps()

    def variables(self, options: Options) -> Mapping[str, str]:
        """Return the XLA flags, which XLA reads only once in a process; an unknown flag ends the process."""
        flags = self._flags(options)
        return {"XLA_FLAGS": flags} if flags else {}

    def _flags(self, options: Options) -> str:
        return " ".join(f"--{name}={value}" for name, value in self.own_settings(options).items())

    def check_settings(self, settings: Options) -> None:
        import tensorflow as tf

        self._dump_passes()
        tf.function(lambda x: x + 1.0, jit_compile=True)(tf.constant(1.0))

    def settings_text(self, options: Options) -> str:
        flags = self._flags(options)
        return f"XLA_FLAGS={flags}" if flags else ""

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        if framework != "tensorflow":
            return ()
        flags = self._flags(options)
        # After the flags of whoever runs the script, who may want to see what XLA does.
        extended = f'os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + {" " + flags!r}'
        imports, setup = (("import os",), (extended,)) if flags else ((), ())
        return [ScriptCall("tf.function(function, jit_compile=True)", imports=imports, setup=setup)]

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        program.enter(Stage.CONVERT)
        traced = Traced(program, jit_compile=True)
        program.enter(Stage.COMPILE)
        if random := traced.operation_like("Random"):
            raise Unsupported(f"{random}: XLA draws other numbers than eager execution, by design")

        def run(arrays: Arrays) -> Arrays:
            with restored_variables(program.live.function):
                results = traced.concrete(*(tensor_from_array(arrays[name]) for name in traced.inputs))
                return {name: tensor.numpy() for name, tensor in zip(traced.outputs, results, strict=True)}

        self._dump_passes()
        self._dumps.taken()  # discard the dumps of earlier programs
        run(program.example)  # XLA compiles during the first call
        return run

    def _dump_passes(self) -> None:
        """Set the flags that make XLA write its passes down. Called in every process before its first compilation,
        since XLA reads its flags once."""
        os.environ["XLA_FLAGS"] = self._dumps.prepare(os.environ)

    @contextlib.contextmanager
    def watching(self) -> Iterator[Behaviour]:
        yield lambda program: self._dumps.taken()

    def is_rejection(self, error: BaseException) -> bool:
        text = str(error)
        return super().is_rejection(error) or is_graph_rejection(error) or any(w in text for w in _XLA_REJECTIONS)


_XLA_REJECTIONS = (
    "Detected unsupported operations when trying to compile graph",
    "must be a compile-time constant",
)


class Traced:
    """A program as a graph from a list of tensors to a list of tensors, with their names."""

    def __init__(self, program: OpenedProgram, **settings: Any) -> None:
        import tensorflow as tf

        live = program.live
        self.inputs = tuple(program.example)
        self.outputs: tuple[str, ...] = ()

        def flat(*tensors: Any) -> Any:
            named: Any = dict(zip(self.inputs, tensors, strict=True))
            args, kwargs = live.call_arguments(named, lambda tensor: tensor)
            outputs = flatten_tensors(live.function(*args, **kwargs))
            self.outputs = tuple(outputs)
            return [tf.identity(tensor) for tensor in outputs.values()]

        specs = [
            tf.TensorSpec(array.shape, tf.as_dtype(array.dtype.name), name=f"input{index}")
            for index, array in enumerate(program.example.values())
        ]
        self.concrete = tf.function(flat, **settings).get_concrete_function(*specs)

    def operation_like(self, *words: str) -> str:
        """Return the type of the first operation that contains one of these words, library functions included; else an
        empty text."""
        definition = self.concrete.graph.as_graph_def()
        nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
        return next((node.op for node in nodes if any(word in node.op for word in words)), "")


def is_graph_rejection(error: BaseException) -> bool:
    """True if the error says that the Python code cannot become a graph; eager execution supports more."""
    return type(error).__name__ in (
        "OperatorNotAllowedInGraphError",
        "InaccessibleTensorError",
        "AutoGraphError",
        "UnsupportedLanguageElementError",
    ) or any(words in str(error) for words in _GRAPH_REJECTIONS)


_GRAPH_REJECTIONS = (
    "object has no attribute 'numpy'",
    "is not allowed in Graph",
    "numpy() is only available when eager execution is enabled",
    "tf.function-decorated function tried to create variables on non-first call",
    "tf.function only supports singleton tf.Variables",
)


def call_on_arrays(live: LiveProgram, arrays: Arrays) -> Arrays:
    """Call the program eagerly, on arrays."""
    args, kwargs = live.call_arguments(arrays, tensor_from_array)
    with in_eager_mode(), restored_variables(live.function):
        return flatten_result(live.function(*args, **kwargs))


def tensor_from_array(array: Array) -> Any:
    import tensorflow as tf

    if array.dtype.name == "bfloat16":  # older releases have a bfloat16 of their own, unknown to numpy
        return tf.cast(tf.constant(array.astype(np.float32)), tf.bfloat16)
    return tf.constant(array)


def flatten_result(result: Any) -> Arrays:
    """Return every tensor of a result as an array, by name."""
    return {name: tensor.numpy() for name, tensor in flatten_tensors(result).items()}


def flatten_tensors(result: Any) -> dict[str, Any]:
    """Return every tensor of a result, by name. Python numbers become tensors by TensorFlow's rules, as in
    `tf.function`."""
    import tensorflow as tf

    tensors: dict[str, Any] = {}
    for name, leaf in flatten(result, "output").items():
        parts = tf.nest.flatten(leaf, expand_composites=True)
        for index, part in enumerate(parts):
            tensors[name if len(parts) == 1 else f"{name}.{index}"] = tf.convert_to_tensor(part)
    return tensors


@contextlib.contextmanager
def restored_variables(function: Any) -> Iterator[None]:
    """Restore the variables of a model after the block, so that every run starts from the same state."""
    saved = [(variable, variable.numpy()) for variable in getattr(function, "variables", None) or ()]
    try:
        yield
    finally:
        for variable, value in saved:
            variable.assign(value)


@contextlib.contextmanager
def in_eager_mode() -> Iterator[None]:
    """Run `tf.function` objects as plain Python inside the block, operation by operation."""
    import tensorflow as tf

    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)
