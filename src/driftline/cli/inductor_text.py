"""What `driftline inductor analyze` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftline.core.text import plural
from driftline.inductor.page import short_path

_GUARDS = 12


def summary_text(result: Mapping[str, Any]) -> str:
    lines = [f"{result['name']}, torch {result['torch']}"]
    for one in result["compilations"]:
        place = f"{short_path(one['file'])}:{one['line']}"
        lines.append(f"\n{one['id']} {one['function']} ({place}): compiled in {one['seconds']:.1f} s")
        for stage, found in one["graphs"].items():
            if found is None:
                continue
            dtypes = ", ".join(f"{name} {count}" for name, count in found["dtypes"].items())
            lines.append(
                f"  {stage:<20} {found['nodes']:>4} nodes  {found['flops']:>14,} FLOPs"
                f"  {found['peak_bytes']:>14,} bytes at the peak  {dtypes}"
            )
        for kernel in one["kernels"]:
            lines.append(f"  kernel {kernel['name']} ({kernel['language']}): {', '.join(kernel['nodes'])}")
    return "\n".join(lines)


def guards_text(result: Mapping[str, Any]) -> str:
    lines = [
        f"{plural(len(result['graphs']), 'graph')}, {plural(len(result['breaks']), 'graph break')},"
        f" {plural(len(result['recompilations']), 'recompilation')}"
    ]
    for one in result["breaks"]:
        lines.append(f"break at {short_path(one['file'])}:{one['line']}: {one['code']}\n  {one['reason']}")
    for one in result["recompilations"]:
        lines.append(f"{one['id']} {one['function']} compiled again: {one['guard']}")
    if result.get("storm"):
        lines.append(result["storm"])
    for graph in result["graphs"]:
        lines.append(f"graph {graph['id']} ({graph['function']}) is used again while")
        told = [guard["words"] for guard in graph["guards"] if guard["about"] in ("input", "module")]
        lines += [f"  {words}" for words in told[:_GUARDS]]
        if len(graph["guards"]) > min(len(told), _GUARDS):
            lines.append(f"  and {len(graph['guards']) - min(len(told), _GUARDS)} others (--json has them all)")
    lines += [f"advice: {text}" for text in result["advice"]]
    return "\n".join(lines)


def constraints_text(result: Mapping[str, Any]) -> str:
    violations = result["violations"]
    lines = [plural(len(violations), "violation"), *result.get("notes", ())]
    for one in violations:
        source = one.get("source") or {}
        place = f"{short_path(source['file'])}:{source['line']}" if source else "no source line"
        fits = f"; would fit: {one['fits']}" if one.get("fits") else ""
        lines.append(f"{place}  {one['operator']} ({one['node']} in {one['graph']})")
        lines.append(f"  {one['constraint']}: {one['value']}; allowed: {one['wanted']}{fits}")
    return "\n".join(lines)
