"""Reads facts from FX graphs of Dynamo and AOTAutograd. Imports torch when called."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from driftline.hardware.facts import INPUT, OUTPUT, GraphFacts, NodeFacts, SourceLine, TensorFacts

_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*(?:\n    (?P<code>[^\n]*))?')
_PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "matmul", "linear"}
_CONVOLUTIONS = re.compile(r"_?conv")
# Reductions along one dimension that keep its size, so that the shapes do not show the reduction.
_ALONG = {"softmax", "_softmax", "log_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp", "_safe_softmax"}
_NORMS = re.compile(r"(native_|rms_)?(layer|group|batch|rms)_norm|logsumexp|(linalg_)?(vector_)?norm")
_REDUCTIONS = {"sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "var", "std"}


def facts_of(module: Any, name: str) -> list[GraphFacts]:
    """Return the facts of a graph and of the graphs inside it (branches of `torch.cond`, bodies of loops)."""
    import torch.fx

    storages: dict[int, int] = {}
    found = [GraphFacts(name, tuple(_node(node, module, storages) for node in module.graph.nodes))]
    for inner, child in module.named_children():
        if isinstance(child, torch.fx.GraphModule):
            found += facts_of(child, f"{name}.{inner}")
    return found


def _node(node: Any, module: Any, storages: dict[int, int]) -> NodeFacts:
    inputs = tuple(t for one in node.all_input_nodes for t in tensors_of(one, module, storages))
    if node.op == "output":
        return NodeFacts(node.name, OUTPUT, inputs, (), tuple(n.name for n in node.all_input_nodes))
    outputs = tuple(tensors_of(node, module, storages))
    operator = INPUT if node.op in ("placeholder", "get_attr") else operator_name(node, module)
    facts = NodeFacts(
        node.name, operator, inputs, outputs, tuple(n.name for n in node.all_input_nodes), source_of(node),
        passes_on=operator == "operator.getitem" and isinstance(_value(node.args[0], module), (list, tuple)),
        unread=tuple(_unread(node, module)),
    )  # fmt: skip
    return NodeFacts(**{**facts.__dict__, "reduced": _reduced(facts, node)}) if facts.is_call else facts


# -- tensors -----------------------------------------------------------------------------------------------------------


def _value(node: Any, module: Any) -> Any:
    """Return the example value of a node, which Dynamo and AOTAutograd store under different keys."""
    if node.op == "get_attr":
        value: Any = module
        for part in node.target.split("."):
            value = getattr(value, part, None)
        return value
    meta = node.meta
    return meta["val"] if "val" in meta else meta.get("example_value")


def tensors_of(node: Any, module: Any, storages: dict[int, int]) -> Iterator[TensorFacts]:
    import torch
    from torch.utils._pytree import tree_leaves

    for leaf in tree_leaves(_value(node, module)):
        if isinstance(leaf, torch.Tensor):
            yield _tensor(leaf, storages)


def _unread(node: Any, module: Any) -> Iterator[int]:
    """Yield the positions of the tensors in a node's results that no other node reads."""
    import operator

    import torch
    from torch.utils._pytree import tree_leaves

    value = _value(node, module)
    if not isinstance(value, (list, tuple)) or any(user.target is not operator.getitem for user in node.users):
        return
    picked = {user.args[1] for user in node.users}
    tensors = (
        (at, leaf) for at, one in enumerate(value) for leaf in tree_leaves(one) if isinstance(leaf, torch.Tensor)
    )
    yield from (place for place, (at, _) in enumerate(tensors) if at not in picked)


def _tensor(tensor: Any, storages: dict[int, int]) -> TensorFacts:
    import torch

    shape, dtype = tuple(size_hint(size) for size in tensor.shape), tensor.dtype
    plain = tensor.layout is torch.strided
    strides = tuple(size_hint(step) for step in tensor.stride()) if plain else ()
    try:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, size_hint(storage.nbytes())
    except (RuntimeError, NotImplementedError):  # sparse tensors and the like have none
        key, size = id(tensor), 0
    # Small numbers, which do not change from run to run
    number = storages.setdefault(key, len(storages))
    formats = []
    for name, memory_format in _formats(len(shape)):
        if plain and tensor.is_contiguous(memory_format=memory_format):
            formats.append(name)
    return TensorFacts(str(dtype).removeprefix("torch."), shape, strides, dtype.itemsize, number, size, tuple(formats))


def _formats(rank: int) -> Iterator[tuple[str, Any]]:
    import torch

    yield "contiguous", torch.contiguous_format
    if rank == 4:
        yield "channels_last", torch.channels_last
    if rank == 5:
        yield "channels_last_3d", torch.channels_last_3d


def size_hint(size: Any) -> int:
    """Return a size, or the example's value of a symbolic size; 1 for a size that depends on data."""
    if isinstance(size, int):
        return size
    hint = getattr(getattr(size, "node", None), "hint", None)
    return int(hint) if hint is not None else 1


# -- operators ---------------------------------------------------------------------------------------------------------


def operator_name(node: Any, module: Any) -> str:
    """Return the name of a node's operator: `aten.mm`, `torch.matmul`, `operator.add`, `Tensor.view`."""
    target = node.target
    if node.op == "call_method":
        return f"Tensor.{target}"
    if node.op == "call_module":
        return f"torch.nn.{type(module.get_submodule(target)).__name__}"
    packet = getattr(target, "overloadpacket", None)
    if packet is not None:
        return str(packet)
    name = getattr(target, "__name__", str(target))
    home = getattr(target, "__module__", None) or "torch"
    return f"{'operator' if home == '_operator' else home.replace('torch._C._nn', 'torch.nn.functional')}.{name}"


def _reduced(node: NodeFacts, fx_node: Any) -> int:
    """Return how many elements are reduced to one element of the result; 0 if the operator reduces nothing."""
    short = node.short
    shapes = [tensor.shape for tensor in node.inputs]
    if not shapes or not node.outputs:
        return 0
    if short in _PRODUCTS:
        first = shapes[1] if short.startswith("add") or short == "baddbmm" else shapes[0]
        return first[-1] if len(shapes) > 1 and first else 0
    if _CONVOLUTIONS.match(short) and "backward" not in short and len(shapes) > 1:
        return math.prod(shapes[1][1:])  # a transposed convolution swaps the first two sizes, which are mostly equal
    if short in _ALONG:
        dim = next((one for one in fx_node.args[1:2] if isinstance(one, int)), -1)
        return shapes[0][dim] if -len(shapes[0]) <= dim < len(shapes[0]) else 0
    if short in _REDUCTIONS or _NORMS.fullmatch(short):
        return _reduced_by_size(node)
    return 0


def _reduced_by_size(node: NodeFacts) -> int:
    """Return the reduction length from the sizes of input and result; a norm reduces the last dimension."""
    given, made = node.inputs[0].elements, node.outputs[0].elements
    if given != made:
        return given // made if made else 0
    shape = node.inputs[0].shape
    return shape[-1] if shape and _NORMS.fullmatch(node.short) else 0


# -- source lines ------------------------------------------------------------------------------------------------------


def source_of(node: Any) -> SourceLine | None:
    """Return the innermost line of the user's program that made the node. For an input, the line of its first use."""
    trace = node.stack_trace
    if not trace and node.op in ("placeholder", "get_attr"):
        trace = next((user.stack_trace for user in node.users if user.stack_trace), None)
    return line_in(trace) if trace else None


def line_in(trace: str) -> SourceLine | None:
    frames = [(m["file"], int(m["line"]), (m["code"] or "").strip()) for m in _FRAME.finditer(trace)]
    own = [frame for frame in frames if not frame[0].startswith(_torch_folder())]
    chosen = (own or frames)[-1:]
    return SourceLine(*chosen[0]) if chosen else None


@cache
def _torch_folder() -> str:
    import torch

    return os.path.dirname(torch.__file__) + os.sep
