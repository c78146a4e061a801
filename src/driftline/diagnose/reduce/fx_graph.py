"""Read torch programs into abstract graphs, and write them as Python text. The module runs in a worker, since it
imports torch.

A program is traced as Dynamo sees it, which is what torch.compile is given, or by torch.export or make_fx where that
does not work.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.fx as fx

from driftline.core.tensors import Array
from driftline.diagnose.reduce.fx_arguments import from_json, to_json
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph, ProgramLeaf, ProgramNode, ValueType, short_name
from driftline.diagnose.reduce.values import Numbered, Values, roughness
from driftline.programs.flat_torch import FlatModule
from driftline.programs.fx_text import program_text
from driftline.programs.layout import InputLayout
from driftline.programs.literals import UNPACK, WRITTEN_OUT, Literals
from driftline.programs.opened import OpenedProgram
from driftline.programs.torch_names import Unwritable, path_of
from driftline.programs.torch_tensors import array_from_tensor, tensor_from_array

ROOM = 8 << 20  # characters for the constants of one program
_SETTERS = ("setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imatmul", "ipow", "iand", "ior", "ixor")


# -- reading -----------------------------------------------------------------------------------------------------------


def read_torch(
    opened: OpenedProgram, samples: Sequence[Mapping[str, Array]], tracer: str, values: Values
) -> ProgramGraph:
    """Trace the program on its first sample. Raise if it cannot be traced or written."""
    flat = FlatModule(opened)
    placed = InputLayout.of(opened.live).tensors(dict(samples[0]), tensor_from_array)
    example = [placed.get(name, tensor_from_array(samples[0][name])) for name in flat.inputs]
    with torch.set_grad_enabled(False):
        module, given = _TRACERS[tracer](flat, example)
    owned = {id(tensor) for tensor in (*flat.parameters(), *flat.buffers())}
    return read_graph(module, given, example, [[s[n] for n in flat.inputs] for s in samples], owned, values)


def _by_dynamo(flat: FlatModule, example: list[Any]) -> tuple[fx.GraphModule, list[Any]]:
    import torch._dynamo

    caught: list[tuple[fx.GraphModule, list[Any]]] = []

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        caught.append((module, list(inputs)))
        return module.forward

    torch._dynamo.reset()
    try:
        torch.compile(flat, backend=backend, fullgraph=True, dynamic=False)(*example)
    finally:
        torch._dynamo.reset()
    if len(caught) != 1:
        raise Unwritable(f"it was traced in {len(caught)} pieces")
    return caught[0]


def _by_export(flat: FlatModule, example: list[Any]) -> tuple[fx.GraphModule, list[Any]]:
    exported = torch.export.export(flat, tuple(example), strict=False)
    held = {**exported.state_dict, **exported.constants}
    users = iter(example)
    specs = exported.graph_signature.input_specs
    return exported.graph_module, [next(users) if s.kind.name == "USER_INPUT" else held[s.target] for s in specs]


def _by_make_fx(flat: FlatModule, example: list[Any]) -> tuple[fx.GraphModule, list[Any]]:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(lambda *tensors: flat(*tensors))(*example), example


_TRACERS = {"dynamo": _by_dynamo, "export": _by_export, "make_fx": _by_make_fx}
TRACERS = tuple(_TRACERS)


def read_graph(
    module: fx.GraphModule,
    given: list[Any],
    example: list[Any],
    samples: Sequence[Sequence[Array]],
    owned: set[int],
    values: Values,
) -> ProgramGraph:
    """Read a traced module. `given`: the tensors of its placeholders; `example`: those among them that are inputs, with
    values for each of the `samples`; `owned`: the ids of the program's own tensors.
    """
    numbers: dict[fx.Node, int] = {}
    leaves: list[ProgramLeaf] = []
    nodes: list[ProgramNode] = []
    outputs: list[int] = []
    waiting = iter(given)
    for node in module.graph.nodes:
        numbers[node] = len(numbers)
        if node.op in ("placeholder", "get_attr"):
            tensor = next(waiting) if node.op == "placeholder" else _attribute(module, node.target)
            if not isinstance(tensor, torch.Tensor):
                raise Unwritable(f"the input {node.name} is not a tensor")
            place = next((at for at, own in enumerate(example) if own is tensor), None)
            arrays = [sample[place] for sample in samples] if place is not None else None
            constant = place is None and (node.op == "get_attr" or id(tensor) in owned)
            leaves.append(_leaf(numbers[node], tensor, arrays, constant, len(samples), values))
        elif node.op == "output":
            results = node.args[0] if isinstance(node.args[0], (tuple, list)) else (node.args[0],)
            outputs = [numbers[value] for value in results if isinstance(value, fx.Node)]
        else:
            nodes.append(_read_node(node, numbers))
    return ProgramGraph(tuple(leaves), tuple(nodes), tuple(dict.fromkeys(outputs)))


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _leaf(
    number: int, tensor: Any, arrays: list[Array] | None, constant: bool, samples: int, values: Values
) -> ProgramLeaf:
    held = arrays or [array_from_tensor(tensor)] * samples
    return ProgramLeaf(number, _type(tensor), values.save(held), constant, roughness(held))


def _type(tensor: Any) -> ValueType:
    strides = () if tensor.is_contiguous() else tuple(tensor.stride())
    return ValueType(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), strides)


def _read_node(node: fx.Node, numbers: Mapping[fx.Node, int]) -> ProgramNode:
    inputs: list[int] = []

    def reference(value: fx.Node) -> dict[str, int]:
        inputs.append(numbers[value])
        return {"$": len(inputs) - 1}

    attributes: dict[str, Any] = {"args": [to_json(arg, reference) for arg in node.args]}
    if node.kwargs:
        attributes["kwargs"] = {key: to_json(value, reference) for key, value in node.kwargs.items()}
    op = _name(node)
    taken_apart = op == "operator.getitem" and not _holds_tensor(node.args[0])
    return ProgramNode(op, tuple(inputs), (numbers[node],), attributes, _writes(node, op), free=taken_apart)


def _holds_tensor(value: Any) -> bool:
    meta = getattr(value, "meta", {})
    return isinstance(meta.get("example_value", meta.get("val")), torch.Tensor)


def _writes(node: fx.Node, op: str) -> bool:
    last = op.rpartition(".")[2]
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return bool(schema.is_mutable)
    inplace = last.endswith("_") and not last.endswith("__")
    return inplace or last in _SETTERS or "out" in node.kwargs or node.kwargs.get("inplace") is True


def _name(node: fx.Node) -> str:
    """Return the name of a call: `.view` for a method, `torch.relu` for a function, `operator.add` for an operator,
    `torch.ops...` for an overload.
    """
    if node.op == "call_method":
        return f".{node.target}"
    if node.op != "call_function":
        raise Unwritable(f"{node.op} is not a call of a function")
    target: Any = node.target
    if target is getattr:
        return "getattr"
    name = str(getattr(target, "__name__", ""))
    if getattr(operator, name, None) is target:
        return f"operator.{name}"
    path = path_of(target)
    if path is None:
        raise Unwritable(f"{getattr(target, '__name__', target)} has no public path")
    return f"torch.Tensor{path}" if path.startswith(".") else path


# -- running and writing -----------------------------------------------------------------------------------------------


def evaluate_torch(graph: ProgramGraph, values: Values, samples: int) -> Evaluated:
    """Run the graph node by node and keep every value. After a node that raises, values are unknown."""
    types: dict[int, ValueType | None] = {leaf.number: leaf.type for leaf in graph.leaves}
    kept: dict[int, list[Array]] = {}
    for index in range(samples):
        env = {leaf.number: laid_out(values.load(leaf.data)[index], leaf.type) for leaf in graph.leaves}
        with torch.no_grad():
            for node in graph.nodes:
                try:
                    result = _call(node, env)
                except Exception:  # a node that raises has no value, nor have later nodes
                    break
                env[node.outputs[0]] = result
                tensor = isinstance(result, torch.Tensor) and result.layout == torch.strided
                types.setdefault(node.outputs[0], _type(result) if tensor else None)
                if tensor:
                    kept.setdefault(node.outputs[0], []).append(array_from_tensor(result))
    whole = {number: arrays for number, arrays in kept.items() if len(arrays) == samples}
    data = {leaf.number: leaf.data for leaf in graph.leaves} | {n: values.save(arrays) for n, arrays in whole.items()}
    return Evaluated(graph, types, data, {number: roughness(arrays) for number, arrays in whole.items()})


def every_value_torch(
    graph: ProgramGraph, values: Values, versions: Iterable[Sequence[str]]
) -> Iterator[list[Numbered]]:
    """Yield all values of the graph on each sample, for each version of the values of its leaves."""
    for version in versions:
        held = {leaf: values.load(name) for leaf, name in zip(graph.leaves, version, strict=True)}
        found = []
        for index in range(min(map(len, held.values()), default=1)):
            env = {leaf.number: laid_out(arrays[index], leaf.type) for leaf, arrays in held.items()}
            known = {leaf.number: arrays[index] for leaf, arrays in held.items()}
            with torch.no_grad(), contextlib.suppress(Exception):  # where it raises, the reference does too
                for node in graph.nodes:
                    result = env[node.outputs[0]] = _call(node, env)
                    if isinstance(result, torch.Tensor) and result.layout == torch.strided:
                        known[node.outputs[0]] = array_from_tensor(result)
            found.append(known)
        yield found


def laid_out(array: Array, kind: ValueType) -> Any:
    """Return the tensor of an array, with the strides of its type."""
    tensor = tensor_from_array(array)
    if not kind.strides or tuple(tensor.shape) != kind.shape:
        return tensor
    if 0 in kind.strides:
        index = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in kind.strides)
        return tensor[index].clone().expand(kind.shape)
    placed = torch.empty_strided(kind.shape, kind.strides, dtype=tensor.dtype)
    return placed.copy_(tensor)


def _call(node: ProgramNode, env: Mapping[int, Any]) -> Any:
    args, kwargs = _arguments(node, lambda at: env[node.operands[at]])
    if node.op.startswith("."):
        return getattr(args[0], node.op[1:])(*args[1:], **kwargs)
    return _function(node.op)(*args, **kwargs)


def _function(op: str) -> Any:
    if op == "getattr":
        return getattr
    space, _, name = op.partition(".")
    found: Any = {"torch": torch, "operator": operator}[space]
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _arguments(node: ProgramNode, of: Callable[[int], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args = tuple(from_json(value, of) for value in node.attributes.get("args", ()))
    kwargs = {key: from_json(value, of) for key, value in node.attributes.get("kwargs", {}).items()}
    return args, kwargs


def build(graph: ProgramGraph) -> tuple[fx.Graph, dict[int, str]]:
    """Return the graph as a torch.fx graph, and the names of its leaves: placeholders for inputs, attributes for
    constants.
    """
    made = fx.Graph()
    env: dict[int, fx.Node] = {}
    names = _leaf_names(graph)
    for leaf in graph.leaves:
        if not leaf.constant:
            env[leaf.number] = made.placeholder(names[leaf.number])
    for leaf in graph.leaves:
        if leaf.constant:
            env[leaf.number] = made.create_node("get_attr", names[leaf.number], name=names[leaf.number])
    for node in graph.nodes:
        read = [env[number] for number in node.operands]
        args, kwargs = _arguments(node, read.__getitem__)
        method = node.op.startswith(".")
        kind, target = ("call_method", node.op[1:]) if method else ("call_function", _function(node.op))
        env[node.outputs[0]] = made.create_node(kind, target, args, kwargs, name=f"{short_name(node.op)}_out")
    made.output(tuple(env[number] for number in graph.outputs))
    return made, names


def write_torch(graph: ProgramGraph, values: Values) -> tuple[str, list[str]]:
    """Return the program's text, and the names of its inputs in the order of the input leaves."""
    made, names = build(graph)
    literals = Literals("torch", ROOM)
    inputs: dict[str, str] = {}
    owned: dict[str, str] = {}
    for leaf in graph.leaves:
        array = values.load(leaf.data)[0]
        name = names[leaf.number]
        if leaf.constant:
            owned[name] = _strided_text(literals.expression(name, array, "        "), leaf.type)
        else:  # the values of larger inputs are stored with the case
            small = array.size <= WRITTEN_OUT
            blank = f"torch.zeros({leaf.type.shape}, dtype=torch.{leaf.type.dtype})"
            inputs[name] = _strided_text(literals.expression(name, array) if small else blank, leaf.type)
    text = program_text(made, inputs, owned)
    if "nan" in text or "inf" in text:
        text = text.replace("\n\n\n", '\n\ninf, nan = float("inf"), float("nan")\n\n\n', 1)
    if literals.needs_numpy and not literals.packed:
        text = f"import numpy as np\n{text}"
    if literals.packed:
        text = "import base64\nimport zlib\n\nimport numpy as np\n" + text.replace("\n\n\n", f"\n\n\n{UNPACK}\n\n", 1)
    return text, list(inputs)


def _leaf_names(graph: ProgramGraph) -> dict[int, str]:
    inputs = [leaf.number for leaf in graph.leaves if not leaf.constant]
    constants = [leaf.number for leaf in graph.leaves if leaf.constant]
    short = ("x", "y", "z") if len(inputs) <= 3 else tuple(f"x{at}" for at in range(len(inputs)))
    return dict(zip(inputs, short, strict=False)) | {number: f"c{at}" for at, number in enumerate(constants)}


def _strided_text(expression: str, kind: ValueType) -> str:
    if not kind.strides:
        return expression
    if 0 in kind.strides:
        index = ", ".join(":1" if stride == 0 else ":" for stride in kind.strides)
        return f"{expression}[{index}].clone().expand({kind.shape})"
    return f"torch.empty_strided({kind.shape}, {kind.strides}, dtype=torch.{kind.dtype}).copy_({expression})"
