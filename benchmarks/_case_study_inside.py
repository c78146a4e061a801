"""A model of the suite held against hardware profiles, in a process of its own: prints JSON for `case_studies.py`."""

from __future__ import annotations

import json
import sys
import time
import warnings
from dataclasses import replace
from typing import Any

import torch

from driftline.bench.suite import SUITE
from driftline.hardware.arithmetic import DeviceArithmetic
from driftline.hardware.loading import load_profile
from driftline.hardware.report import ConstraintReport
from driftline.hardware.violation import Group, grouped
from driftline.inductor import aot_mock_backend
from driftline.models import build


def main() -> None:
    name, size, *profiles = sys.argv[1:]
    sized = SUITE[name][size]
    module, inputs = build(sized.corpus, **sized.settings)
    print(json.dumps({profile: held_against(profile, module, inputs) for profile in profiles}))


def held_against(profile: str, module: Any, inputs: Any) -> dict[str, Any]:
    """Violations of one profile, by constraint and by what is fixed together."""
    torch._dynamo.reset()
    # What the device would compute is not asked here: computing a U-Net like an NPU takes minutes.
    plain = replace(load_profile(profile), arithmetic=DeviceArithmetic())
    backend = aot_mock_backend(profile=plain, strict=False, lower="eager")
    began = time.perf_counter()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.compile(module, backend=backend)(**inputs)
    report: ConstraintReport = backend.report
    aten = [one for one in report.violations if "before AOTAutograd" not in one.graph]
    groups = sorted(grouped(aten), key=lambda group: -group.count)
    by_constraint: dict[str, int] = {}
    for one in aten:
        by_constraint[one.constraint] = by_constraint.get(one.constraint, 0) + 1
    return {
        "torch": torch.__version__,
        "seconds": time.perf_counter() - began,
        "violations": len(aten),
        "constraints": by_constraint,
        "places": len(groups),
        "groups": [_group(group) for group in groups[:4]],
        "breaks": [str(one) for one in report.breaks],
        "peak_bytes": max((graph.peak_bytes for graph in report.graphs), default=0),
        "operators": sum(sum(g.operators.values()) for g in report.graphs if "before AOTAutograd" not in g.name),
    }


def _group(group: Group) -> dict[str, Any]:
    first = group.first
    source = first.source
    place = f"{'/'.join(source.file.split('/')[-2:])}:{source.line}" if source else ""
    return {
        "constraint": first.constraint, "operator": first.operator, "count": group.count, "place": place,
        "code": source.code if source else "", "value": first.value, "wanted": first.wanted, "fits": first.fits,
    }  # fmt: skip


if __name__ == "__main__":
    main()
