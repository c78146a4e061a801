"""Text of functions that scripts contain whatever the compiler; `render.py` puts the parts together."""

from __future__ import annotations

# The example arguments of a source program with the failing inputs in them. The first %s is how a tensor is replaced,
# the second a statement before each call.
FILL = '''\
def filled(example, values):
    """The example arguments with every tensor taken from the failing inputs."""
    if isinstance(example, dict):
        return {name: filled(item, values) for name, item in example.items()}
    if isinstance(example, (tuple, list)):
        return type(example)(filled(item, values) for item in example)
    return %s if hasattr(example, "dtype") and hasattr(example, "shape") else example


def call(function, example):
%s    arguments = filled(example, iter(inputs().values()))
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
STORAGES = {}  # the memory of one call, by that of the example


def laid_out(example, values):
    """The values laid out as in the example: transposed, strided, overlapping, or sharing memory with another input."""
    if example.shape != values.shape or not example.numel():
        return values
    size = example.untyped_storage().nbytes() // example.element_size()
    layout = (example.size(), example.stride(), example.storage_offset())
    place = (example.untyped_storage().data_ptr(), values.dtype)
    storage = STORAGES.setdefault(place, torch.zeros(size, dtype=values.dtype))
    storage[torch.arange(size).as_strided(*layout).reshape(-1)] = values.reshape(-1)
    return storage.as_strided(*layout)
'''

# -- torch programs ----------------------------------------------------------------------------------------------------

# A call through an ONNX model, with the arguments converted for the compiler.
EXPORT = """\
def converted(function, *inputs):
    model = torch.onnx.export(function, inputs, dynamo=True, opset_version=18, verbose=False).model_proto
    model.ir_version = 8  # so that older compilers read it too
    inputs = {{value.name: x.numpy() for value, x in zip(model.graph.input, inputs)}}
    return {call}
"""

# The same for a script that times a call, and does all else before.
EXPORTED = """\
def exported(function, *inputs):
    model = torch.onnx.export(function, inputs, dynamo=True, opset_version=18, verbose=False).model_proto
    return model, {value.name: x.numpy() for value, x in zip(model.graph.input, inputs)}
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
