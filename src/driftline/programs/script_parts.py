"""The fixed parts of scripts: text of functions that `render.py` puts together."""

from __future__ import annotations

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

# ONNX models: `compiled(model, feeds)`, to be filled in by `str.format`.
RUNNERS = {
    "onnxruntime": '''\
def compiled(model, feeds):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]{disabled}
    )
    return session.run(None, feeds)
''',
    "openvino": '''\
def compiled(model, feeds):
    import io

    import openvino

    core = openvino.Core()
    network = core.compile_model(
        core.read_model(io.BytesIO(model.SerializeToString())), "CPU", {{"INFERENCE_PRECISION_HINT": "f32"}}
    )
    return list(network(feeds).values())
''',
    "tvm": '''\
def compiled(model, feeds):
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    names = [value.name for value in model.graph.input if value.name in feeds]
    shapes = {{name: list(feeds[name].shape) for name in names}}
    dtypes = {{name: feeds[name].dtype.name for name in names}}
    with tvm.transform.PassContext(opt_level={opt}):
        built = tvm.compile(from_onnx(model, shape_dict=shapes, dtype_dict=dtypes), target="llvm")
    result = relax.VirtualMachine(built, tvm.cpu())["main"](*(tvm.runtime.tensor(feeds[name]) for name in names))
    return [part.numpy() for part in ([result] if hasattr(result, "numpy") else result)]
''',
}  # fmt: skip
REFERENCE = """\
def reference(model, feeds):
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, feeds)
"""


# From torch to an ONNX model, and the inputs under the model's names.
EXPORT = '''\
class Program(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def exported(function):
    """The program as an ONNX model, with the feeds that go with it."""
    tensors = tuple(inputs().values())
    made = torch.onnx.export(Program(function).eval(), tensors, dynamo=True, opset_version=18, verbose=False)
    model = made.model_proto
    return model, {value.name: tensor.numpy() for value, tensor in zip(model.graph.input, tensors)}
'''
