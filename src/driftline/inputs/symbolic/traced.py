"""Trace a program into one flat graph of aten operators: torch programs, and ONNX models executed on torch.

Composite operators are decomposed, so that the precision of their kernels (float32 for float16 and bfloat16) shows as
casts. Only workers import this module.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx

from driftline.core.errors import DriftlineError
from driftline.core.structure import flatten
from driftline.core.tensors import Arrays, is_float
from driftline.core.text import first_line
from driftline.inputs.symbolic.formats import Format
from driftline.programs.live import is_tensor
from driftline.programs.onnx.file import load_structure
from driftline.programs.opened import OpenedProgram
from driftline.programs.torch_tensors import array_from_tensor, tensor_from_array

_FURTHER = ("native_layer_norm", "_softmax", "_log_softmax", "linalg_vector_norm", "gelu", "native_batch_norm",
            "_native_batch_norm_legit", "_native_batch_norm_legit.no_stats", "logsumexp", "native_group_norm",
            "_native_batch_norm_legit_no_training", "silu", "hardtanh", "elu", "leaky_relu", "softplus",
            "log_sigmoid_forward", "_fused_rms_norm", "addcdiv", "addcmul", "nll_loss_forward", "mse_loss")  # fmt: skip
LARGEST = 4000  # nodes; beyond that a graph takes too long to look at


@dataclass(frozen=True)
class TracedProgram:
    """`module` is a torch.fx.GraphModule from the inputs in order to a flat list of results. `labels` maps graph node
    names to the names that the user knows."""

    module: Any
    example: Mapping[str, torch.Tensor]
    labels: Mapping[str, str]

    @property
    def nodes(self) -> list[Any]:
        return list(self.module.graph.nodes)

    def arrays(self, tensors: Sequence[torch.Tensor]) -> Arrays:
        return {name: array_from_tensor(tensor) for name, tensor in zip(self.example, tensors, strict=True)}


def trace(program: OpenedProgram, form: Format | None = None) -> TracedProgram:
    """Return the graph for inputs of the example's sizes, with all floats converted to `form` if given."""
    example = {name: _as(tensor_from_array(array), form) for name, array in program.example.items()}
    labels: dict[str, str] = {}
    run = _played(program, form, labels) if program.form == "onnx" else _called(program, form)
    try:
        with torch.no_grad():
            tracer = make_fx(run, decomposition_table=_table(), tracing_mode="real")
            module = tracer(*example.values())
    except (MemoryError, DriftlineError):
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {first_line(str(error), 160)}"
        raise DriftlineError(
            f"{program.program.name} cannot be traced into one graph, which solving needs ({said})."
            " Programs whose control flow depends on values are out of reach; try a part of it."
        ) from error
    module.graph.eliminate_dead_code()
    module.recompile()
    _name_as_the_user(module, list(example), labels)
    if len(module.graph.nodes) > LARGEST:
        raise DriftlineError(
            f"{program.program.name} has {len(module.graph.nodes)} operators; solving takes at most {LARGEST}."
            " Name a part of the model as a program of its own."
        )
    return TracedProgram(module, example, labels)


def _name_as_the_user(module: Any, inputs: Sequence[str], labels: dict[str, str]) -> None:
    """Add labels: inputs by their own names, and each result of an operator with several results by the operator's
    name."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    labels.update({node.name: name for node, name in zip(placeholders, inputs, strict=True)})
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is operator.getitem and node.name not in labels:
            whole, part = node.args
            results = whole.target._schema.returns if hasattr(whole.target, "_schema") else ()
            named = results[part].name if part < len(results) and results[part].name else str(part)
            labels[node.name] = f"{whole.name}.{named}"


def _table() -> dict[Any, Any]:
    further = []
    for name in _FURTHER:
        packet, _, overload = name.partition(".")
        found = getattr(torch.ops.aten, packet, None)
        if found is not None:
            further.append(getattr(found, overload) if overload else found)
    means = dict.fromkeys((torch.ops.aten.mean.default, torch.ops.aten.mean.dim), _mean)
    return {**core_aten_decompositions(), **get_decompositions(further), **means}


def _mean(tensor: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Compute the mean as a sum and a quotient. Torch's own decomposition uses operators (prims) that have no
    derivative."""
    wanted = dtype or tensor.dtype
    wide = tensor.to(torch.float32 if wanted in (torch.float16, torch.bfloat16) else wanted)
    total = torch.sum(wide, dim, keepdim)
    return (total / (tensor.numel() // max(1, total.numel()))).to(wanted)


def _as(tensor: torch.Tensor, form: Format | None) -> torch.Tensor:
    return tensor.to(getattr(torch, form.name)) if form and tensor.is_floating_point() else tensor


def _called(program: OpenedProgram, form: Format | None) -> Any:
    live = program.live
    function: Any = live.function
    if form and isinstance(function, torch.nn.Module):
        function = function.to(getattr(torch, form.name))
    names = list(program.example)

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        args, kwargs = live.call_arguments(dict(zip(names, tensors, strict=True)), lambda tensor: tensor)
        results = flatten(function(*args, **kwargs), "output")
        return [leaf for leaf in results.values() if is_tensor(leaf)]

    return torch.func.functionalize(run, remove="mutations_and_views") if not _is_module(function) else run


def _is_module(function: Any) -> bool:
    return isinstance(function, torch.nn.Module)


def _played(program: OpenedProgram, form: Format | None, labels: dict[str, str]) -> Any:
    from driftline.programs.onnx.player.player import OnnxPlayer

    if form is not None and any(is_float(s.dtype) and s.dtype != form.name for s in program.program.inputs):
        raise DriftlineError("--dtype changes torch programs; an ONNX model has its dtypes written in it.")
    player = OnnxPlayer(load_structure(program.path), program.path.parent)
    names = list(program.example)

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        done = 0

        def watch(node: Any, results: Any) -> None:
            nonlocal done
            mode = get_proxy_mode()
            made = list(mode.tracer.graph.nodes)[done:] if mode is not None else []
            done += len(made)
            called = node.proto.name or next(iter(node.outputs), "")
            labels.update((one.name, f"{called} ({node.op_type})") for one in made)

        outputs = player.run(dict(zip(names, tensors, strict=True)), watch)
        found: list[torch.Tensor] = []
        for value in outputs.values():
            found += [item for item in (value if isinstance(value, list) else [value]) if is_tensor(item)]
        return found

    return run
