"""Writes a script with the single node that breaks a constraint, on tensors like its original inputs.

It is a program for Driftline too: `driftline check repro.py:program`. What a whole graph breaks (its peak of memory)
needs the whole graph.
"""

from __future__ import annotations

from typing import Any

from driftline.hardware.fx_facts import size_hint, source_of
from driftline.hardware.profile import Profile
from driftline.hardware.violation import Violation

_WHOLE = ("peak_memory",)


def reproduction(module: Any, violation: Violation, profile: Profile, *, aot: bool) -> str:
    """Return the text of the script. It exits with 1 if the violation shows, with 0 if it does not."""
    from driftline.programs.fx_text import program_text

    graph = module.graph if violation.constraint in _WHOLE else _alone(module, violation.node)
    inputs = {node.name: _tensor_text(node) for node in graph.nodes if node.op == "placeholder"}
    text = program_text(graph, inputs, {}, user_level=False)
    constraints = [one for one in profile.constraints if one.key == violation.constraint]
    backend = "aot_mock_backend" if aot else "mock_backend"
    names = ", ".join(sorted({backend, *(type(one).__name__ for one in constraints)}))
    lower = ', lower="eager"' if aot else ""
    source = f"# from {violation.source}\n" if violation.source else ""
    return (
        f"# {violation}\n{source}{text}\n\n"
        'if __name__ == "__main__":\n'
        f"    from driftline.inductor import {names}\n\n"
        "    function, inputs = program()\n"
        f"    constraints = [{', '.join(one.to_python() for one in constraints)}]\n"
        f"    backend = {backend}(strict=False, constraints=constraints{lower})\n"
        "    torch.compile(function, backend=backend)(*inputs)\n"
        "    print(backend.report.summary())\n"
        "    raise SystemExit(1 if backend.report.violations else 0)\n"
    )


def _alone(module: Any, name: str) -> Any:
    """Return a graph of one node, with its tensors as inputs. For an input, the node is the first that reads it."""
    import torch.fx

    node = next(one for one in module.graph.nodes if one.name == name)
    if node.op in ("placeholder", "get_attr"):
        node = next((user for user in node.users if user.op != "output"), node)
    graph = torch.fx.Graph()
    given: dict[Any, Any] = {}
    for number, argument in enumerate(node.all_input_nodes):
        given[argument] = graph.placeholder(f"input_{number}")
        given[argument].meta = _meta(argument, module)
    if node.op in ("placeholder", "get_attr"):
        copied = graph.placeholder("input_0")
        copied.meta = _meta(node, module)
    else:
        copied = graph.node_copy(node, lambda one: given[one])
        copied.stack_trace = None if source_of(node) is None else node.stack_trace
    graph.output(copied)
    return graph


def _meta(node: Any, module: Any) -> dict[str, Any]:
    if node.op != "get_attr":
        return dict(node.meta)
    value = module
    for part in node.target.split("."):
        value = getattr(value, part)
    return {"val": value}


def _tensor_text(node: Any) -> str:
    """Return code for a tensor of zeros with the same dtype, sizes and strides: violations do not depend on values."""
    import torch

    value = node.meta["val"] if "val" in node.meta else node.meta.get("example_value")
    if not isinstance(value, torch.Tensor):
        return repr(size_hint(value)) if hasattr(value, "node") else repr(value)
    shape, strides = tuple(map(size_hint, value.shape)), tuple(map(size_hint, value.stride()))
    if value.is_contiguous():
        return f"torch.zeros({list(shape)}, dtype={value.dtype})"
    return f"torch.empty_strided({shape}, {strides}, dtype={value.dtype}).zero_()"
