"""Taps of torch programs: lists the values along the graph of torch.export, and writes a program that returns some of
them.

The graph is exported once (`export_graph`). A tapped program is made by running that graph in an interpreter that keeps
the requested values, and exporting the run. Runs in a worker: it imports torch.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves

from driftline.core.tensors import Array, Arrays, is_float, spec_of
from driftline.programs.flat_torch import as_module
from driftline.programs.opened import OpenedProgram
from driftline.programs.pickled import load_exported
from driftline.programs.taps.requests import TappedForm
from driftline.programs.taps.scopes import cleaned
from driftline.programs.taps.tap import Tap
from driftline.programs.torch_tensors import tensor_from_array

# Results that hold the very numbers of their argument.
_COPIES = (
    "clone",
    "contiguous",
    "detach",
    "alias",
    "lift_fresh_copy",
    "dropout",
    "identity",
    "_assert_tensor_metadata",
)
_GUARDS = "_guards_fn"  # checks of the shapes, which torch.export adds


def export_graph(program: OpenedProgram, path: Path) -> Any:
    """Export the program as a graph, write it to `path`, and return it."""
    if program.form == "torch":
        exported = load_exported(program.path)
    else:
        live = program.live
        args, kwargs = live.call_arguments(program.example, tensor_from_array)
        with torch.no_grad():
            exported = torch.export.export(as_module(live.function), args, kwargs, strict=False)
    torch.export.save(exported, str(path))
    return exported


def list_torch_taps(exported: Any) -> list[Tap]:
    """Return every float result that depends on the inputs and is not just a view."""
    nodes = list(exported.graph.nodes)
    returned = {leaf for leaf in tree_leaves(nodes[-1].args) if isinstance(leaf, torch.fx.Node)}
    users = {spec.arg.name for spec in exported.graph_signature.input_specs if spec.kind.name == "USER_INPUT"}
    reached = {node for node in nodes if node.op == "placeholder" and node.name in users}
    group, changed = _memory(nodes)
    last = {read: position for position, node in enumerate(nodes) for read in node.all_input_nodes}
    alive: set[Any] = set()
    taps = []
    for position, node in enumerate(nodes):
        if node.op != "call_function" or not reached.intersection(node.all_input_nodes):
            continue
        reached.add(node)
        alive = {value for value in (*alive, node) if last.get(value, -1) > position}
        kept = changed.get(group[node], -1) <= position  # it is not written to later
        if kept and (about := _described(node)):
            taps.append(Tap(node.name, position, *about, len(alive), node in returned))
    return taps


def _described(node: Any) -> tuple[str, str, str, str, tuple[int, ...]] | None:
    """Return operator, name, scope, dtype and shape of a float result; `None` for a view and for other values."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or _is_view(node):
        return None
    dtype = str(value.dtype).removeprefix("torch.")
    if not is_float(dtype):
        return None
    shape = tuple(int(size) if isinstance(size, int) else -1 for size in value.shape)
    maker = node.args[0] if node.target is operator.getitem else node
    return _called(maker), node.name, _scope(maker), dtype, shape


def _memory(nodes: Sequence[Any]) -> tuple[dict[Any, Any], dict[Any, int]]:
    """Return for each node the node whose memory it may share, and for those the last position that writes to it."""
    group: dict[Any, Any] = {}
    changed: dict[Any, int] = {}
    for position, node in enumerate(nodes):
        group[node] = node
        schema = getattr(node.target, "_schema", None)
        first = next(iter(node.all_input_nodes), None)
        if schema is None or first is None:
            if node.target is operator.getitem:
                group[node] = group[node.args[0]]
            continue
        if schema.is_mutable or getattr(node.target, "is_view", False) or _called(node) in _COPIES:
            group[node] = group[first]
        if schema.is_mutable:
            changed[group[first]] = position
    return group, changed


def _is_view(node: Any) -> bool:
    target = node.args[0].target if node.target is operator.getitem else node.target
    return bool(getattr(target, "is_view", False)) or _name(target) in (*_COPIES, "reshape", "to", "split", "chunk")


def _called(node: Any) -> str:
    return _name(node.target)


def _name(target: Any) -> str:
    schema = getattr(target, "_schema", None)
    return schema.name.rpartition("::")[2] if schema else str(getattr(target, "__name__", target))


def _scope(node: Any) -> str:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return cleaned(str(stack[-1][0])) if stack else ""


class _Watching(torch.fx.Interpreter):
    """Runs a graph and keeps requested values; readers of a cut value get the given one instead."""

    def __init__(self, module: Any, wanted: Sequence[str], cuts: Mapping[str, Any]) -> None:
        super().__init__(module)
        self._wanted, self._cuts = set(wanted), cuts
        self.seen: dict[str, Any] = {}

    def play(self, leaves: Sequence[Any], *, to_the_end: bool) -> Any:
        """Run the graph and return its results; None if it stops early because all requested values are seen."""
        self.args_iter = iter(leaves)
        self.env = {}
        result = None
        for node in self.graph.nodes:
            if not to_the_end and len(self.seen) == len(self._wanted):
                return None
            result = self.env[node] = self.run_node(node)
        return result

    def run_node(self, n: Any) -> Any:
        if n.op == "call_module" and n.target == _GUARDS:
            return None
        result = super().run_node(n)
        if n.name in self._wanted:
            self.seen[n.name] = result
        return self._cuts.get(n.name, result)


class Tapped(torch.nn.Module):  # type: ignore[misc]
    """A module from the input tensors and those of the cuts to the taps and the program's own results."""

    def __init__(self, inner: Any, leaves: Sequence[Any], taps: Sequence[str], cuts: Sequence[str], returned: bool):
        super().__init__()
        self.inner = inner
        self._leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self._is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        self._taps, self._cuts, self._returned = list(taps), list(cuts), returned

    def forward(self, *tensors: Any) -> Any:
        own = iter(tensors)
        leaves = [
            next(own) if is_tensor else leaf for leaf, is_tensor in zip(self._leaves, self._is_tensor, strict=True)
        ]
        watching = _Watching(self.inner, self._taps, dict(zip(self._cuts, own, strict=True)))
        result = watching.play(leaves, to_the_end=self._returned)
        seen = [watching.seen[name] for name in self._taps]
        return (*seen, *(leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)))


def write_torch_tapped(
    program: OpenedProgram, taps: Sequence[str], path: Path, *, cuts: Arrays, returned: bool
) -> TappedForm:
    """Write the graph with other results, exported again. `cuts`: values by name, which become inputs."""
    live = program.live
    names: dict[int, str] = {}

    def make(array: Array) -> Any:
        tensor = tensor_from_array(array)
        names[id(tensor)] = next(name for name, own in program.example.items() if own is array)
        return tensor

    args, kwargs = live.call_arguments(program.example, make)
    leaves, _ = tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    given = {f"cut.{number}": array for number, array in enumerate(cuts.values())}
    module = Tapped(live.function, leaves, taps, list(cuts), returned)
    with torch.no_grad():
        exported = torch.export.export(
            module, (*tensors, *(tensor_from_array(array) for array in given.values())), strict=False
        )
    torch.export.save(exported, str(path))
    order = [names[id(tensor)] for tensor in tensors] + list(given)
    arrays = {**program.example, **given}
    specs = [spec_of(name, arrays[name]) for name in order]
    inputs = zip(exported.graph_signature.user_inputs, specs, strict=True)
    return TappedForm(tuple(replace(spec, name=str(told)) for told, spec in inputs), tuple(order))
