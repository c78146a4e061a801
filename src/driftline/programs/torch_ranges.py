"""Finds out, where that is cheap, which values the inputs of a torch program may hold and how large they may be.

An exported graph is read. A live module is called once on its example, only as far as its embeddings: whichever input
arrives at one of them unchanged is an index of its table.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from driftline.core.structure import flatten
from driftline.programs.known import InputRule, Known
from driftline.programs.layout import InputLayout
from driftline.programs.live import LiveProgram, is_tensor

# operators that pass indices on to an embedding unchanged
_PASSING = frozenset(
    "view reshape _unsafe_view unsqueeze squeeze expand slice clone _to_copy to alias contiguous detach permute"
    " transpose flatten lift_fresh_copy".split()
)


def known_of_module(live: LiveProgram) -> Known:
    """Return what is known of a source program. Any input may have another size; the program says which are wrong."""
    modules = getattr(live.function, "modules", None)
    layers = [m for m in modules() if not list(m.children())] if callable(modules) else []
    layout = InputLayout.of(live).to_json()
    return Known(size=len(layers), resizable=True, layout=layout).ruled(_embedded(live))


class _Enough(Exception):
    """Raised to stop the model once all integer inputs are known."""


def _embedded(live: LiveProgram) -> dict[str, InputRule]:
    import torch

    if not isinstance(live.function, torch.nn.Module):
        return {}
    tables = [
        (n, m) for n, m in live.function.named_modules() if isinstance(m, (torch.nn.Embedding, torch.nn.EmbeddingBag))
    ]
    arrays, kept = live.example_arrays(), list[Any]()
    wanted = {n for n, a in arrays.items() if a.dtype.kind in "iu" and a.size and a.max() > 1}  # a mask is no index
    if not tables or not wanted:
        return {}
    from driftline.programs.torch_tensors import tensor_from_array

    made: dict[int, str] = {}  # where the memory of a tensor begins, and which input it is
    rules: dict[str, InputRule] = {}

    def make(array: Any) -> Any:
        tensor = tensor_from_array(array)
        name = next(name for name, own in arrays.items() if own is array)
        made[tensor.untyped_storage().data_ptr()] = name
        kept.append(tensor)
        return tensor

    def looked_up(label: str) -> Any:
        def hook(module: Any, given: Any) -> None:
            name = made.get(given[0].untyped_storage().data_ptr()) if given and is_tensor(given[0]) else None
            if name is not None and name in wanted:
                count = module.num_embeddings
                rule = InputRule(f"index:{count}", f"it indexes the {count} rows of {label}")
                if int(rules.get(name, rule).values.partition(":")[2]) >= count:
                    rules[name] = rule
                if set(rules) == wanted:
                    raise _Enough

        return hook

    hooks = [module.register_forward_pre_hook(looked_up(name)) for name, module in tables]
    args, kwargs = live.call_arguments(arrays, make)
    with torch.no_grad(), _state_kept(live.function), contextlib.suppress(Exception):
        live.function(*args, **kwargs)  # its errors are reported when it is run in earnest
    for hook in hooks:
        hook.remove()
    return rules


@contextlib.contextmanager
def _state_kept(module: Any) -> Iterator[None]:
    """Restore a module's buffers and the random state after the block."""
    import torch

    saved = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    generator = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(generator)
        with torch.no_grad():
            for buffer, old in saved:
                if buffer.shape == old.shape:
                    buffer.copy_(old)


def known_of_archive(exported: Any, live: LiveProgram) -> Known:
    """Return what is known of an exported program: sizes are fixed, except those with a symbol."""
    graph = exported.graph
    nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    inputs = [nodes.get(str(name)) for name in exported.graph_signature.user_inputs]
    leaves = [(name, leaf) for name, leaf in flatten(live.arguments, "input").items()]
    calls = sum(n.op == "call_function" for n in graph.nodes)
    known = Known(size=calls, layout=InputLayout.of(live).to_json())
    dims: dict[str, tuple[str, ...]] = {}
    tensors = [(name, node) for (name, leaf), node in zip(leaves, inputs, strict=False) if is_tensor(leaf)]
    if len(leaves) != len(inputs):
        return known
    by_node = {node: name for name, node in tensors if node is not None}
    for node, name in by_node.items():
        shape = getattr(node.meta.get("val"), "shape", ())
        dims[name] = tuple("" if isinstance(size, int) else str(size) for size in shape)
    return replace(known, dims=dims, limits=_size_limits(exported)).ruled(_embedding_rules(graph, by_node))


def _size_limits(exported: Any) -> dict[str, int]:
    """Return the largest size of each symbol that has a limit."""
    limits: dict[str, int] = {}
    for symbol, span in exported.range_constraints.items():
        with contextlib.suppress(Exception):
            if int(span.upper) < 1 << 31:
                limits[str(symbol)] = int(span.upper)
    return limits


def _embedding_rules(graph: Any, by_node: Mapping[Any, str]) -> dict[str, InputRule]:
    """Return the rules of inputs that index embeddings; for several tables, the one with the fewest rows counts."""
    rules: dict[str, InputRule] = {}
    for node in graph.nodes:
        if node.op == "call_function" and "embedding" in str(node.target) and len(node.args) > 1:
            source = by_node.get(_origin(node.args[1]))
            table = getattr(getattr(node.args[0], "meta", {}).get("val"), "shape", None)
            if source and table:
                rows = int(table[0])
                rule = InputRule(f"index:{rows}", f"it indexes the {rows} rows of an embedding")
                if int(rules.get(source, rule).values.partition(":")[2]) >= rows:
                    rules[source] = rule
    return rules


def _origin(node: Any) -> Any:
    while getattr(node, "op", "") == "call_function" and _plain_name(node.target) in _PASSING and node.args:
        node = node.args[0]
    return node


def _plain_name(target: Any) -> str:
    return str(target).split("::")[-1].removeprefix("aten.").split(".")[0]
