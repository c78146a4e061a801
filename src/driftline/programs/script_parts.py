"""The fixed parts of scripts: text of functions that `render.py` puts together."""

from __future__ import annotations

from dataclasses import dataclass

from driftline.core.target import Target

# The example arguments of a source program with the failing inputs in them; %s is how a tensor is replaced.
FILL = '''\
def filled(example, values):
    """The example arguments with every tensor taken from the failing inputs."""
    if isinstance(example, dict):
        return {name: filled(item, values) for name, item in example.items()}
    if isinstance(example, (tuple, list)):
        return type(example)(filled(item, values) for item in example)
    return %s if hasattr(example, "dtype") and hasattr(example, "shape") else example


def call(function, example):
    arguments = filled(example, iter(inputs().values()))
    if isinstance(arguments, dict):
        return function(**arguments)
    return function(*(arguments if isinstance(arguments, (tuple, list)) else (arguments,)))
'''

# Both runs are shown whatever happens.
SHOW = """\
def show(label, run):
    try:
        print(label, run())
    except Exception as error:
        print(label, f"{type(error).__name__}: {error}")
"""

LAYOUT = '''\
def laid_out(example, values):
    """The values in the memory layout of the example, which may be transposed, strided or overlapping."""
    if example.is_contiguous() or example.shape != values.shape:
        return values
    size = example.untyped_storage().nbytes() // example.element_size()
    layout = (example.size(), example.stride(), example.storage_offset())
    storage = torch.zeros(size, dtype=values.dtype)
    storage[torch.arange(size).as_strided(*layout).reshape(-1)] = values.reshape(-1)
    return storage.as_strided(*layout)
'''

# -- ONNX models -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Runner:
    """How a compiler runs an ONNX model in a script."""

    package: str
    imports: tuple[str, ...]
    text: str  # the function `compiled(model, inputs)`; nothing when the call is short enough to stand alone
    call: str = "compiled(model, inputs)"


_LEVELS = {"off": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED"}

_ONNXRUNTIME = """\
def compiled(model, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]{disabled}
    )
    return session.run(None, inputs)
"""
_ONNXRUNTIME_PLAIN = "onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)"
_OPENVINO = """\
def compiled(model, inputs):
    core = openvino.Core()
    model = core.read_model(model.SerializeToString(), b"")
    made = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(inputs)
    return [part.view("bfloat16") if out.element_type.to_string() == "bf16" else part for out, part in made.items()]
"""
_TVM = """\
def compiled(model, inputs):
    names = [value.name for value in model.graph.input if value.name in inputs]
    shapes = {{name: list(inputs[name].shape) for name in names}}
    dtypes = {{name: inputs[name].dtype.name for name in names}}
    with tvm.transform.PassContext(opt_level={opt}):
        built = tvm.compile(from_onnx(model, shape_dict=shapes, dtype_dict=dtypes), target="llvm")
    result = relax.VirtualMachine(built, tvm.cpu())["main"](*(tvm.runtime.tensor(inputs[name]) for name in names))
    return [part.numpy() for part in ([result] if hasattr(result, "numpy") else result)]
"""
_IREE = """\
def compiled(model, inputs):
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    model.graph.name = "main"
    information = onnx_importer.ModelInfo(model)
    module = information.create_module(context=Context()).operation
    onnx_importer.NodeImporter.define_function(information.main_graph, module).import_all()
    flags = ["--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false", "--iree-opt-level={opt}"]
    code = iree.compiler.compile_str(
        str(module.get_asm()), target_backends=["llvm-cpu"], input_type="onnx", extra_args=flags
    )
    loaded = iree.runtime.load_vm_flatbuffer(code, driver="local-sync")
    names = [value.name for value in model.graph.input if value.name in inputs]
    result = loaded.main(*(inputs[name] for name in names))
    return [part.to_host() for part in (result if isinstance(result, (tuple, list)) else [result])]
"""


def runner(target: Target) -> Runner | None:
    """How the target runs an ONNX model; nothing when that takes more than some lines."""
    options = dict(target.options)
    if target.backend == "onnxruntime" and "enable" not in options:
        disabled = ", ".join(f'"{name}"' for name in options.get("disable", "").split("+") if name)
        if disabled or options.get("opt", "all") != "all":
            text = _ONNXRUNTIME.format(
                level=_LEVELS.get(options.get("opt", ""), "ORT_ENABLE_ALL"),
                disabled=f", disabled_optimizers=[{disabled}]" if disabled else "",
            )
            return Runner("onnxruntime", ("import onnxruntime",), text)
        return Runner("onnxruntime", ("import onnxruntime",), "", _ONNXRUNTIME_PLAIN)
    if target.backend == "openvino":
        return Runner("openvino", ("import openvino",), _OPENVINO)
    if target.backend == "tvm":
        imports = ("import tvm", "from tvm import relax", "from tvm.relax.frontend.onnx import from_onnx")
        return Runner("apache-tvm", imports, _TVM.format(opt=options.get("opt", "3")))
    if target.backend == "iree":
        modules = ("import iree.compiler", "import iree.runtime", "import onnx")
        parts = ("from iree.compiler.extras import onnx_importer", "from iree.compiler.ir import Context")
        return Runner("iree-base-compiler", (*modules, *parts), _IREE.format(opt=options.get("opt", "O2")))
    return None


# From torch to an ONNX model, and the inputs under the model's names.
EXPORT = '''\
class Program(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def exported(function, inputs):
    """The program as an ONNX model, with the feeds that go with it."""
    made = torch.onnx.export(Program(function).eval(), tuple(inputs), dynamo=True, opset_version=18, verbose=False)
    model = made.model_proto
    model.ir_version = 8  # so that older compilers read it too
    return model, {value.name: tensor.numpy() for value, tensor in zip(model.graph.input, inputs)}
'''

# From a TensorFlow function to its results after conversion.
TFLITE = """\
def tflite(function, inputs):
    specs = [tf.TensorSpec(x.shape, x.dtype) for x in inputs]
    concrete = tf.function(function).get_concrete_function(*specs)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
    interpreter = tf.lite.Interpreter(model_content=converter.convert())
    interpreter.allocate_tensors()
    for detail, x in zip(interpreter.get_input_details(), inputs):
        interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
"""

# Both passes of a torch program.
WITH_GRADIENTS = """\
def with_gradients(function, inputs):
    given = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    result = function(*given)
    sum(part.sum() for part in tree_leaves(result) if part.requires_grad).backward()
    return result, [x.grad for x in given]
"""
