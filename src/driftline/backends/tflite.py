"""TensorFlow Lite: TensorFlow's converter and interpreter, or a flatbuffer that litert-torch made, run by LiteRT.

Operations without a builtin kernel are kept as TensorFlow operations ("Flex"): a TensorFlow installation can run them,
LiteRT alone cannot. Shapes are fixed to those of the example. Results come in order, under the converter's own names.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import re
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from driftline.backends.base import Availability, Backend, Behaviour, Compiled, Option, Options, Unsupported, option
from driftline.backends.pass_texts import pass_texts
from driftline.backends.tensorflow import TENSORFLOW_TRACKER, Traced
from driftline.core.execution import Stage
from driftline.core.packages import TENSORFLOW
from driftline.core.script_call import ScriptCall
from driftline.core.tensors import Array, Arrays
from driftline.programs.opened import OpenedProgram

_LARGEST = 1e30  # beyond it the width of a range is no float32
_RUNTIMES = {"tensorflow": "tensorflow", "litert": "ai_edge_litert"}
_RESOLVERS = {"xnnpack": "AUTO", "none": "BUILTIN_WITHOUT_DEFAULT_DELEGATES"}
_REJECTION_TEXTS = (
    "supported by this interpreter",  # TensorFlow operations without the Flex delegate
    "is neither a custom op nor a flex op",
    "Unsupported TensorFlow type",
    "Didn't find op for builtin opcode",
    "Encountered unresolved custom op",
    "not supported",  # "Type FLOAT16 (10) not supported.", "Data type INT16 is not supported"
    "unsupported by op",
    "Unsupported",
)


# The converter settings for values in fewer bits, and the error that results may then have.
_QUANTISED = {"float16": "half-weights", "dynamic": "byte-values", "int8": "byte-values"}
_TELLING = {
    "float16": "converter.target_spec.supported_types = [tf.float16]",
    "int8": "converter.representative_dataset = lambda: [list(inputs)]",
}

# From a plain TensorFlow function to its results after conversion.
_SCRIPT = """\
def tflite(function, inputs):
    concrete = tf.function(function).get_concrete_function(*map(tf.constant, inputs))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], tf.Module())
{quantise}    model = converter.convert()
    runner = tf.lite.Interpreter(model_content=model{resolver}).get_signature_runner()
    return list(runner(**dict(zip(function.__code__.co_varnames, inputs))).values())
"""
# The same without a signature: another way through the converter, and for what is more than a plain function.
_UNSIGNED = """\
def tflite(function, inputs):
    concrete = tf.function(function).get_concrete_function(*map(tf.constant, inputs))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
{quantise}    model = converter.convert()
    interpreter = tf.lite.Interpreter(model_content=model{resolver})
    interpreter.allocate_tensors()
    for detail, x in zip(interpreter.get_input_details(), inputs):
        interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
"""
_FROM_TORCH = """\
def litert(function, *inputs):
    made = litert_torch.convert(function, inputs)(*inputs)
    return list(made) if isinstance(made, (tuple, list)) else [made]
"""


_OPERATION = re.compile(r"\btfl\.(\w+)")
_FUSED = re.compile(r'fused_activation_function = "(\w+)"')


class TfLite(Backend):
    name = "tflite"
    start_seconds = 6.0
    # It keeps subnormal numbers. TensorFlow's eager kernels, which say what a program means, take them for zero.
    arithmetic = "flush-to-zero"
    _dumps: Path | None = None  # where the converter's optimiser is written down while it is watched
    accepts = ("source:tensorflow", "tflite")
    sizes = False  # it is converted for the sizes of its example
    distribution = TENSORFLOW
    extra = "tensorflow"
    also_in = ("tensorflow-cpu", "tensorflow", "ai-edge-litert")
    tracker = TENSORFLOW_TRACKER
    rungs = ("delegate=none",)
    renames_outputs = True
    options = {
        "delegate": Option("what runs the operators that it can", ("xnnpack", "none"), "xnnpack"),
        "kernels": Option("which kernels; the reference ones run without a delegate", ("fast", "reference"), "fast"),
        "quantise": Option(
            "keep weights in float16 or eight bits; int8: all values, over their range in the run itself",
            tuple(_QUANTISED),
        ),
        "runtime": Option(
            "whose interpreter; by default TensorFlow's for its own programs, else LiteRT's", tuple(_RUNTIMES)
        ),
    }

    def installed(self) -> Availability:
        if not _present():
            return Availability(False, reason=f"neither {TENSORFLOW!r} nor 'ai-edge-litert' is installed")
        return Availability(True, self.version(), self.devices)

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        resolver = self._resolver(options)
        if framework == "tensorflow" and options.get("runtime") != "litert":
            own = resolver != _RESOLVERS["xnnpack"]
            chosen = f", experimental_op_resolver_type=tf.lite.experimental.OpResolverType.{resolver}" if own else ""
            mode = options.get("quantise", "")
            told = ["converter.optimizations = [tf.lite.Optimize.DEFAULT]", _TELLING.get(mode, "")] if mode else []
            lines = "".join(f"    {line}\n" for line in told if line)
            texts = [t.replace("{resolver}", chosen).replace("{quantise}", lines) for t in (_SCRIPT, _UNSIGNED)]
            return [ScriptCall("tflite(function, inputs)", text, arrays=True) for text in texts]
        if framework != "torch" or resolver != _RESOLVERS["xnnpack"] or "quantise" in options:
            return ()
        imports, packages = ("import litert_torch",), ("litert-torch", "ai-edge-litert")
        return [ScriptCall("litert(function, *inputs)", _FROM_TORCH, imports, packages, arrays=True)]

    def arithmetic_with(self, options: Options) -> str:
        storage = _QUANTISED.get(options.get("quantise", ""), "")
        return "+".join(filter(None, (self.arithmetic, storage)))

    def _resolver(self, options: Options) -> str:
        """Return TensorFlow Lite's name for the chosen set of kernels."""
        if option(options, self, "kernels") == "reference":
            return "BUILTIN_REF"
        return _RESOLVERS[option(options, self, "delegate")]

    def warm(self) -> None:
        from driftline.backends.tensorflow import TensorFlow

        if "tensorflow" in _present():
            TensorFlow().warm()
        if "litert" in _present():
            import ai_edge_litert.interpreter  # noqa: F401

    def fixes_sizes(self, program: OpenedProgram) -> bool:
        return True

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        mode = options.get("quantise", "")
        if program.form != "source":
            if mode:
                raise Unsupported(f"quantise={mode}: it is converted already")
            return self._runner(program, program.data, options, ("litert", "tensorflow"))
        preferred = ("tensorflow", "litert")
        if mode != "int8":
            honest = self._runner(program, _convert(program, self._dumps, mode), options, preferred)
            return _bounded(honest) if mode == "dynamic" else honest

        def calibrated(arrays: Arrays) -> Arrays:
            data = _convert(program, self._dumps, mode, arrays)
            return self._runner(program, data, options, preferred)(arrays)

        return _bounded(calibrated)

    def _runner(self, program: OpenedProgram, data: bytes, options: Options, preferred: Sequence[str]) -> Compiled:
        runtime = options.get("runtime") or next(name for name in preferred if name in _present())
        interpreter = _interpreter(data, runtime, self._resolver(options))
        interpreter.allocate_tensors()
        feeds = _in_order(interpreter.get_input_details(), len(program.example))

        def run(arrays: Arrays) -> Arrays:
            for position, name in enumerate(program.example):
                if position in feeds and arrays[name].size:  # there is no memory behind an empty tensor
                    index, dtype = feeds[position]
                    interpreter.set_tensor(index, _fitting(arrays[name], dtype))
            interpreter.invoke()
            return {f"output{i}": _read(interpreter, d) for i, d in enumerate(interpreter.get_output_details())}

        return run

    @contextlib.contextmanager
    def watching(self) -> Iterator[Behaviour]:
        with tempfile.TemporaryDirectory(prefix="tflite-passes-") as folder:
            self._dumps = Path(folder)
            try:
                yield lambda program: _taken_rewrites(Path(folder))
            finally:
                self._dumps = None

    def is_rejection(self, error: BaseException) -> bool:
        from driftline.backends.tensorflow import is_graph_rejection

        text = str(error)
        return super().is_rejection(error) or is_graph_rejection(error) or any(w in text for w in _REJECTION_TEXTS)


def _present() -> list[str]:
    return [name for name, module in _RUNTIMES.items() if importlib.util.find_spec(module)]


def _taken_rewrites(folder: Path) -> list[str]:
    """Return the rewrites of the converter's optimiser, as the operations that became fewer and more (`add relu >
    fully_connected:RELU`), and the names of fusions that explain them. Empties the folder."""
    seen = []
    for before in sorted(folder.rglob("*OptimizePass_before.mlir")):
        after = before.with_name(before.name.replace("_before", "_after"))
        if after.exists():
            old, new = _operations(before.read_text()), _operations(after.read_text())
            less, more = old - new, new - old
            if less or more:
                seen.append(f"{' '.join(sorted(less))} > {' '.join(sorted(more))}".strip())
                seen += [one.name for one in pass_texts(TfLite.name).values() if one.explains(less, more)]
    for path in folder.iterdir():
        shutil.rmtree(path)
    return sorted(set(seen))


def _operations(text: str) -> Counter[str]:
    """Count the operations in a text, each with its fused activation."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        operation = _OPERATION.search(line)
        if operation and operation[1] != "no_value":  # a bias that is not there
            fused = _FUSED.search(line)
            found[operation[1] + (f":{fused[1]}" if fused and fused[1] != "NONE" else "")] += 1
    return found


def _bounded(run: Compiled) -> Compiled:
    """Wrap `run` to reject inputs that eight bits cannot represent (NaN, infinite, very large): their results are
    undefined."""

    def checked(arrays: Arrays) -> Arrays:
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not _has_range(array):
                raise Unsupported(f"{name} has numbers that eight bits cannot stand for: NaN, infinite or very large")
        return run(arrays)

    return checked


def _convert(program: OpenedProgram, dumps: Path | None = None, mode: str = "", example: Arrays | None = None) -> bytes:
    import tensorflow as tf

    program.enter(Stage.CONVERT)
    traced = Traced(program)
    if random := traced.operation_like("Random"):
        raise Unsupported(f"{random}: TensorFlow Lite has a random generator of its own")
    if assignment := traced.operation_like("Assign"):
        raise Unsupported(f"{assignment}: converting freezes variables, and this program changes one")
    if mode == "int8" and any(one.type == "LogSoftmax" for one in traced.concrete.graph.get_operations()):
        raise Unsupported("LogSoftmax in eight bits ends at -16, as the specification of TensorFlow Lite says")
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced.concrete])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    if mode:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if mode == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if example is not None:
        used = [example[name] for name in traced.inputs]
        _require_ranges(traced, used)
        converter.representative_dataset = lambda: [used]
    if dumps:
        converter.ir_dump_dir, converter.ir_dump_pass_regex = str(dumps), "OptimizePass"
    data: bytes = converter.convert()
    program.enter(Stage.COMPILE)
    return data


def _require_ranges(traced: Traced, example: Sequence[Array]) -> None:
    """Raise `Unsupported` if a value inside the program has no finite range, since calibration would crash. Programs
    that cannot be run here (such as one with a table, which freezing makes an input) are left to the converter."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    frozen = convert_variables_to_constants_v2(traced.concrete, lower_control_flow=False)
    inside = [out for one in frozen.graph.get_operations() for out in one.outputs if out.dtype.is_floating]
    if len(frozen.inputs) != len(example):
        return
    feeds = {tensor.name: value for tensor, value in zip(frozen.inputs, example, strict=True)}
    with tf.compat.v1.Session(graph=frozen.graph) as session:
        try:
            values = session.run(inside, feeds)
        except tf.errors.OpError:
            return
    for tensor, value in zip(inside, values, strict=True):
        if not _has_range(value):
            raise Unsupported(
                f"{tensor.op.type} gives numbers that eight bits cannot stand for: NaN, infinite or very large"
            )


def _has_range(array: Array) -> bool:
    return bool((np.abs(array.astype(np.float64)) <= _LARGEST).all())


def _interpreter(data: bytes, runtime: str, resolver: str) -> Any:
    if runtime == "tensorflow":
        import tensorflow as tf

        kinds, make = tf.lite.experimental.OpResolverType, tf.lite.Interpreter
    else:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        kinds, make = OpResolverType, Interpreter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tf.lite.Interpreter says on each use that it will move to LiteRT
        return make(model_content=data, num_threads=1, experimental_op_resolver_type=getattr(kinds, resolver))


def _read(interpreter: Any, detail: dict[str, Any]) -> Array:
    if 0 in detail["shape"]:
        return np.zeros(detail["shape"], detail["dtype"])
    array: Array = interpreter.get_tensor(detail["index"])
    return array


def _fitting(array: Array, dtype: Any) -> Array:
    """Return the array in the dtype that the model expects; raises if values change. litert-torch narrows int64
    indices."""
    narrowed = array.astype(dtype)
    if not np.array_equal(narrowed, array, equal_nan=array.dtype.kind == "f"):
        raise Unsupported(f"the converter narrowed an input from {array.dtype} to {narrowed.dtype}")
    return narrowed


def _in_order(details: list[dict[str, Any]], count: int) -> dict[int, tuple[int, Any]]:
    """Return the tensor and dtype for each input position of the program. Converters number their inputs, and drop
    unused ones."""
    numbers = [re.search(r"(?:input|args_)(\d+)", detail["name"]) for detail in details]
    if all(numbers):
        return {int(n.group(1)): (d["index"], d["dtype"]) for n, d in zip(numbers, details, strict=True) if n}
    if len(details) != count:
        raise ValueError(f"cannot tell which inputs of {count} the names {[d['name'] for d in details]} stand for")
    return {position: (detail["index"], detail["dtype"]) for position, detail in enumerate(details)}
