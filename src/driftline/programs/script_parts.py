"""The fixed parts of scripts: text of functions that `render.py` puts together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driftline.core.target import Target, listed
from driftline.programs.tvm_transforms import TRANSFORMS
from driftline.programs.xla_options import xla_config

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
    """How a compiler runs an ONNX model in a script, with `inputs` in the order of the model's own."""

    packages: tuple[str, ...]
    imports: tuple[str, ...]
    text: str  # the function `compiled(model, inputs)`; nothing when the call is short enough to stand alone
    call: str = "compiled(model, inputs)"


LEVELS = {"off": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED"}

_ONNXRUNTIME = """\
def compiled(model, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}
    session = onnxruntime.InferenceSession(model.SerializeToString(), options{disabled})
    return session.run(None, inputs)
"""
_ONNXRUNTIME_PLAIN = "onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)"
_OPENVINO = """\
def compiled(model, inputs):
    network = openvino.Core().read_model(model.SerializeToString(), b"")
    return openvino.compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(inputs).to_tuple()
"""
# numpy does not know bfloat16: such arrays go and come as bits.
_OPENVINO_BITS = """\
def compiled(model, inputs):
    network = openvino.Core().read_model(model.SerializeToString(), b"")
    given = {
        name: openvino.Tensor(x.view("uint16"), x.shape, openvino.Type.bf16) if x.dtype == "bfloat16" else x
        for name, x in inputs.items()
    }
    made = openvino.compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(given)
    return [x.view("bfloat16") if port.element_type.to_string() == "bf16" else x for port, x in made.items()]
"""
_TVM = """\
{skipping}\
def compiled(model, inputs):
    with tvm.transform.PassContext(opt_level={opt}{instruments}):
{building}\
    result = tvm.relax.VirtualMachine(built, tvm.cpu())["main"](*map(tvm.runtime.tensor, inputs.values()))
    return [part.numpy() for part in ([result] if hasattr(result, "numpy") else result)]
"""
_TVM_SKIPPING = """\
@tvm.instrument.pass_instrument
class Skipping:
    def should_run(self, module, information):
        return information.name not in {names}


"""
_TVM_BUILT = """\
        built = tvm.compile(from_onnx(model, {name: x.shape for name, x in inputs.items()}), target="llvm")
"""
_TVM_TRANSFORMED = """\
        module = from_onnx(model, {{name: x.shape for name, x in inputs.items()}})
        with tvm.target.Target("llvm"):
            for transform in [{names}]:
                module = getattr(tvm.relax.transform, transform)()(module)
        built = tvm.compile(module, target="llvm")
"""
_IREE = """\
def compiled(model, inputs):
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    model.graph.name = "main"
    info = onnx_importer.ModelInfo(model)
    module = info.create_module(context=Context()).operation
    onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
    args = [{flags}]
    code = iree.compiler.compile_str(module.get_asm(), target_backends=["llvm-cpu"], input_type="onnx", extra_args=args)
    result = iree.runtime.load_vm_flatbuffer(code, driver="local-sync").main(*inputs.values())
    parts = result if isinstance(result, (tuple, list)) else [result]
    # Integers have no sign in IREE: the model says what the bits mean.
    dtypes = [onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in model.graph.output]
    return [np.array(part.to_host()).view(dtype) for part, dtype in zip(parts, dtypes)]
"""


def runner(target: Target, *, bfloat16: bool = False) -> Runner | None:
    """How the target runs an ONNX model, with results in bfloat16 too; nothing when that takes more than some lines."""
    options = dict(target.options)
    if target.backend == "onnxruntime" and "enable" not in options:
        return _onnxruntime(options)
    if target.backend == "openvino":
        return Runner(("openvino",), ("import openvino",), _OPENVINO_BITS if bfloat16 else _OPENVINO)
    if target.backend == "tvm":
        return _tvm(options)
    if target.backend == "onnxscript" and "skip" not in options:
        return _onnxscript(listed(options, "rules"))
    if target.backend == "iree":
        modules = ("import iree.compiler", "import iree.runtime", "import numpy as np", "import onnx")
        parts = ("from iree.compiler.extras import onnx_importer", "from iree.compiler.ir import Context")
        packages = ("iree-base-compiler", "iree-base-runtime")
        return Runner(packages, (*modules, *parts), _IREE.format(flags=_iree_flags(options)))
    return None


def _onnxruntime(options: Mapping[str, str]) -> Runner:
    disabled = ", ".join(f'"{name}"' for name in listed(options, "disable"))
    packages, imports = ("onnxruntime",), ("import onnxruntime",)
    if not disabled and options.get("opt", "all") == "all":
        return Runner(packages, imports, "", _ONNXRUNTIME_PLAIN)
    text = _ONNXRUNTIME.format(
        level=LEVELS.get(options.get("opt", ""), "ORT_ENABLE_ALL"),
        disabled=f", disabled_optimizers=[{disabled}]" if disabled else "",
    )
    return Runner(packages, imports, text)


def _tvm(options: Mapping[str, str]) -> Runner:
    skipped = listed(options, "skip")
    steps = ", ".join(f'"{step}"' for name in listed(options, "passes") for step in TRANSFORMS[name])
    text = _TVM.format(
        opt=options.get("opt", "3"),
        skipping=_TVM_SKIPPING.format(names=skipped) if skipped else "",
        instruments=", instruments=[Skipping()]" if skipped else "",
        building=_TVM_TRANSFORMED.format(names=steps) if steps else _TVM_BUILT,
    )
    return Runner(("apache-tvm",), ("import tvm", "from tvm.relax.frontend.onnx import from_onnx"), text)


def _onnxscript(rules: Sequence[str]) -> Runner:
    """Rewritten, then evaluated: by the reference evaluator, or for ONNX Runtime's own operators by that."""
    imports, given = ["from onnxscript.rewriter import rewrite"], []
    for rule in rules:
        *module, name = rule.split(".")
        number = ""
        if name.isdigit():  # of a set
            number, name = f".rules[{name}]", module.pop()
        place = module if module[0] == "ort_fusions" else ["rules", *module]
        imports.append(f"from onnxscript.rewriter.{'.'.join(place)} import {name}")
        given.append(name + number)
    made = f"rewrite(model, [{', '.join(given)}])" if given else "rewrite(model)"
    if not any(rule.startswith("ort_fusions") for rule in rules):
        return Runner(("onnxscript",), tuple(imports), "", f"reference.ReferenceEvaluator({made}).run(None, inputs)")
    runtime = _onnxruntime({"opt": "off"})
    packages, imports = ("onnxscript", *runtime.packages), [*imports, *runtime.imports]
    return Runner(packages, tuple(imports), runtime.text, f"compiled({made}, inputs)")


def _iree_flags(options: Mapping[str, str]) -> str:
    flags = ["iree-llvmcpu-target-cpu=host", "iree-input-demote-f64-to-f32=false"]
    flags += [f"iree-opt-level={options.get('opt', 'O2')}", *listed(options, "flags")]
    return ", ".join(f'"--{flag}"' for flag in flags)


def xla_arguments(options: Mapping[str, str]) -> str:
    """Options of the `xla` target as further arguments of `jax.jit`."""
    settings = xla_config(options)
    return f", compiler_options={settings!r}" if settings else ""


# -- torch programs ----------------------------------------------------------------------------------------------------

# Through an ONNX model, which `compiled` runs.
EXPORT = """\
def converted(function, *inputs):
    model = torch.onnx.export(function, inputs, dynamo=True, opset_version=18, verbose=False).model_proto
    model.ir_version = 8  # so that older compilers read it too
    return compiled(model, {value.name: x.numpy() for value, x in zip(model.graph.input, inputs)})
"""

TORCHSCRIPT = """\
def torchscript(function, *inputs):
    graph = {take}
    graph(*inputs)
{freeze}\
    for _ in range(2):  # it optimises in the second run
        graph(*inputs)
    return graph(*inputs)
"""

AOTINDUCTOR = """\
def aotinductor(function, *inputs):
    exported = torch.export.export(function, inputs)
    package = torch._inductor.aoti_compile_and_package(exported{config})
    return torch._inductor.aoti_load_package(package, run_single_threaded=True)(*inputs)
"""

EXECUTORCH = """\
def executorch(function, *inputs):
    lowered = to_edge_transform_and_lower(torch.export.export(function, inputs){partitioner})
    program = Runtime.get().load_program(lowered.to_executorch().buffer)
    method = program.load_method("forward")
    return [tensor.clone() for tensor in method.execute(inputs)]
"""

LITERT = """\
def litert(function, *inputs):
    made = litert_torch.convert(function, inputs)(*inputs)
    return list(made) if isinstance(made, (tuple, list)) else [made]
"""

TORCHAX = """\
def xla(function, *inputs):
    known = torch._ops.OpOverloadPacket.__getattr__

    def lenient(packet, name):  # torchax names overloads that torch has dropped meanwhile
        return known(packet, name) if name.startswith("__") or name in packet.overloads() else object()

    with mock.patch.object(torch._ops.OpOverloadPacket, "__getattr__", lenient):
        from torchax.export import exported_program_to_jax
    weights, translated = exported_program_to_jax(torch.export.export(function, inputs))
    return jax.device_get(jax.jit(translated{options})(weights, [x.numpy() for x in inputs]))
"""

# On a GPU, which computes as the target declares.
ON_CUDA = """\
def on_cuda(function):
    products = torch.backends.cuda.matmul
    torch.backends.cudnn.allow_tf32 = products.allow_tf32 = {tf32}
    products.allow_fp16_reduced_precision_reduction = {half}
    products.allow_bf16_reduced_precision_reduction = {half}
    if isinstance(function, torch.nn.Module):
        function = copy.deepcopy(function).cuda()

    def run(*args, **kwargs):
        args, kwargs = tree_map_only(torch.Tensor, lambda x: x.cuda(), (args, kwargs))
        return tree_map_only(torch.Tensor, lambda x: x.cpu(), {compiled}(*args, **kwargs))

    return run
"""

# Both passes of a torch program: a fixed combination of its results is derived, by inputs and by weights.
WITHOUT_ONEDNN = """\
def without_onednn(run):
    with torch.backends.mkldnn.flags(enabled=False):
        return run()
"""
WITH_GRADIENTS = """\
def with_gradients(function, *inputs):
    given = tree_map_only(torch.Tensor, lambda x: x.clone().requires_grad_(x.is_floating_point()), inputs)
{fresh}\
    result = function(*given)
    torch.manual_seed({seed})
    outputs = [x for x in tree_leaves(result) if getattr(x, "requires_grad", False)]
    factors = [torch.empty(x.shape, dtype=torch.float64).uniform_(0.5, 1.5).to(x.dtype) for x in outputs]
    torch.autograd.backward(outputs, factors)
    leaves = [*tree_leaves(given){weights}]
    return result, [x.grad for x in leaves if getattr(x, "grad", None) is not None]
"""

# -- TensorFlow programs -----------------------------------------------------------------------------------------------

# From a plain TensorFlow function to its results after conversion.
TFLITE = """\
def tflite(function, inputs):
    concrete = tf.function(function).get_concrete_function(*map(tf.constant, inputs))
    model = tf.lite.TFLiteConverter.from_concrete_functions([concrete], tf.Module()).convert()
    runner = tf.lite.Interpreter(model_content=model).get_signature_runner()
    return list(runner(**dict(zip(function.__code__.co_varnames, inputs))).values())
"""

# The same without a signature: another way through the converter, and for what is more than a plain function.
TFLITE_UNSIGNED = """\
def tflite(function, inputs):
    concrete = tf.function(function).get_concrete_function(*map(tf.constant, inputs))
    model = tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert()
    interpreter = tf.lite.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    for detail, x in zip(interpreter.get_input_details(), inputs):
        interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
"""
