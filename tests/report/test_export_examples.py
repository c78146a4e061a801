"""The known bugs: each reduces to a few operators, its script is short, runs by itself and shows it, and where the pass
to blame is known, ablation names it."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from driftline.backends import BACKENDS
from driftline.campaign.explain.ablation import ablate_failing
from driftline.campaign.explain.exporting import subject_of
from driftline.campaign.explain.failing import find_failing
from driftline.campaign.explain.reduction import reduce_failing
from driftline.causes import builtin
from driftline.causes.sighting import machine_name
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.target import Target
from driftline.execute.environments import find_environment
from driftline.report.export.script import export_script
from driftline.store import Store

EXAMPLES = Path(__file__).parents[2] / "examples" / "bugs"
FAILING = [
    (cause.example, target)
    for cause in builtin()
    for target in cause.fails_on
    if not cause.machines or machine_name(platform.machine()) in cause.machines
]
# What is to blame, where somebody has switched it off and seen.
TO_BLAME = {
    "inductor_cumsum_dtype.py": "pointless_cumsum_replacement",
    "inductor_mul_zero_nan.py": "constant_fold_uniform_value",
    "onnxruntime_relu_clip_float64.py": "FuseReluClip",
    "onnxruntime_reshape_fusion.py": "ReshapeFusion",
}


@pytest.mark.slow
@pytest.mark.parametrize(("file", "target"), FAILING, ids=[f"{f.removesuffix('.py')}-{t}" for f, t in FAILING])
def test_a_known_bug_becomes_a_report(file: str, target: str, checker: Checker, store_folder: Path) -> None:
    goal = Target.parse(target)
    if goal.version and not find_environment(BACKENDS.get(goal.backend).packages, goal.version):
        pytest.skip(f"no environment for {goal}")
    with Store.create(store_folder) as store:
        failing = find_failing(f"{EXAMPLES / file}:program", store, checker, target=goal, options=CheckOptions())
        original = export_script(subject_of(store, checker, failing))
        assert original.valid, f"{original.reason}\n{original.text}"
        reduction = reduce_failing(checker, store, failing, budget=900).reduction
        assert reduction.after.operators <= 3
        script = export_script(subject_of(store, checker, failing))
        assert script.valid, f"{script.reason}\n{script.text}"
        assert script.lines <= 25  # with the metadata, and the call of the compiler
        assert str(EXAMPLES) not in script.text
        if file in TO_BLAME:
            cures = ablate_failing(checker, store, failing, budget=900, case=reduction.case).body["cures"]
            assert TO_BLAME[file] in cures[0]["title"]


EXPORTING = """
import sys

import torch


class Model(torch.nn.Module):
    def forward(self, total, part):
        return torch.floor_divide(total, part) + torch.sin(total)


inputs = torch.tensor([1.0, 7.0]), torch.tensor([0.1, 0.7])
torch.export.save(torch.export.export(Model(), inputs), sys.argv[1])
"""


@pytest.mark.slow
def test_an_exported_program_becomes_text(checker: Checker, store_folder: Path, tmp_path: Path) -> None:
    """A .pt2 file is nothing that a maintainer can read."""
    path = tmp_path / "model.pt2"
    subprocess.run([sys.executable, "-c", EXPORTING, str(path)], check=True)
    with Store.create(store_folder) as store:
        target = Target.parse("inductor")
        failing = find_failing(str(path), store, checker, target=target, options=CheckOptions())
        script = export_script(subject_of(store, checker, failing))
    assert script.valid, f"{script.reason}\n{script.text}"
    assert "torch.floor_divide(x, y)" in script.text and "base64" not in script.text
