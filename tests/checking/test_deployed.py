"""A file held against the program that it was made from."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from driftline.campaign.check.session import check_program
from driftline.campaign.explain.failing import find_failing
from driftline.campaign.explain.localization import localize_failing
from driftline.campaign.explain.replay import replay
from driftline.checking.checker import Checker
from driftline.checking.deployed import deploy
from driftline.checking.open import LoadedProgram, open_program
from driftline.checking.result import CheckResult, ReplayAnswer
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.target import parse_targets
from driftline.core.verdict import Judgement
from driftline.store import Store

OPTIONS = CheckOptions()


def linear(
    path: Path, factor: float = 1.0, *, dtype: int = TensorProto.FLOAT, names: str = "xy", width: int = 4
) -> str:
    """y = x @ W + 1, written to a file."""
    x, y = names
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    weight = np.random.default_rng(0).standard_normal((width, 3)) * factor
    graph = helper.make_graph(
        [helper.make_node("MatMul", [x, "W"], ["h"]), helper.make_node("Add", ["h", "b"], [y])],
        "linear",
        [helper.make_tensor_value_info(x, dtype, [2, width])],
        [helper.make_tensor_value_info(y, dtype, [2, 3])],
        [numpy_helper.from_array(weight.astype(kind), "W"), numpy_helper.from_array(np.ones(3, kind), "b")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), str(path))
    return str(path)


TORCH = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        weight = torch.tensor({weight})
        self.register_buffer("weight", weight)

    def forward(self, x):
        return x @ self.weight + 1

def net():
    return Net(), (torch.linspace(-1, 1, 8).reshape(2, 4),)
"""


def torch_net(path: Path) -> str:
    weight = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    path.write_text(TORCH.format(weight=weight.tolist()))
    return f"{path}:net"


def against(checker: Checker, file: str, reference: str) -> LoadedProgram:
    return deploy(open_program(file, checker.pool, OPTIONS), open_program(reference, checker.pool, OPTIONS))


def check(
    checker: Checker, folder: Path, opened: LoadedProgram, targets: str = "onnxruntime", **more: Any
) -> CheckResult:
    with Store.create(folder) as store:
        return check_program(checker, store, opened, targets=parse_targets("onnxruntime"), options=OPTIONS, **more)


def test_a_faithful_file_passes_whatever_its_names(checker: Checker, tmp_path: Path, store_folder: Path) -> None:
    original = linear(tmp_path / "original.onnx")
    renamed = linear(tmp_path / "renamed.onnx", names="uv")
    result = check(checker, store_folder, against(checker, renamed, original), samples=3)
    assert [row.verdict.judgement for row in result.results] == [Judgement.PASS]
    assert result.outcome.case.program.name == "original.onnx" and result.outcome.case.runs.name == "renamed.onnx"


def test_a_torch_program_is_the_reference_of_an_onnx_file(checker: Checker, tmp_path: Path, store_folder: Path) -> None:
    original = torch_net(tmp_path / "net.py")
    good, bad = linear(tmp_path / "good.onnx"), linear(tmp_path / "bad.onnx", 1.001)
    assert check(checker, store_folder, against(checker, good, original)).results[0].verdict.judgement is Judgement.PASS
    (row,) = check(checker, store_folder, against(checker, bad, original)).results
    assert row.verdict.judgement is Judgement.FAIL
    assert row.blame == "bad.onnx"  # the runtime computes what the file says


def test_a_file_in_half_precision_is_compared_as_numbers(checker: Checker, tmp_path: Path, store_folder: Path) -> None:
    """It is further off than float32 rounding allows: a change of values, not a complaint about the dtype."""
    original = linear(tmp_path / "original.onnx")
    half = linear(tmp_path / "half.onnx", dtype=TensorProto.FLOAT16)
    (row,) = check(checker, store_folder, against(checker, half, original), inputs="random").results
    assert str(row.verdict.kind) == "wrong-value" and row.blame == "half.onnx"
    assert 1e-5 < (row.verdict.evidence.error or 0.0) < 1e-2


def test_it_is_kept_and_replayed(checker: Checker, tmp_path: Path, store_folder: Path) -> None:
    original, changed = linear(tmp_path / "original.onnx"), linear(tmp_path / "changed.onnx", 1.01)
    result = check(checker, store_folder, against(checker, changed, original))
    (bug,) = result.bugs.values()
    (tmp_path / "original.onnx").unlink()
    (tmp_path / "changed.onnx").unlink()
    with Store.create(store_folder) as store:
        assert replay(store, bug.id, checker).answer is ReplayAnswer.STILL_FAILS
        with pytest.raises(DriftlineError, match=r"works on one program.*--reference original\.onnx --layers"):
            localize_failing(checker, store, find_failing(bug.id, store, checker), budget=10)


def test_a_case_of_an_older_store_has_no_deployed_file(checker: Checker, tmp_path: Path, store_folder: Path) -> None:
    """The body of an ordinary case is what it was before there were deployed files, so its id is too."""
    opened = open_program(linear(tmp_path / "original.onnx"), checker.pool, OPTIONS)
    with Store.create(store_folder) as store:
        result = check_program(checker, store, opened, targets=parse_targets("onnxruntime"), options=OPTIONS)
        case_id = store.save_case(result.outcome.case)
        assert store.load_case(case_id).deployed is None
    (body,) = sqlite3.connect(store_folder / "store.db").execute("SELECT body FROM cases").fetchone()
    assert set(json.loads(body)) == {"program", "samples", "targets", "options"}


def test_what_does_not_fit_is_one_sentence(checker: Checker, tmp_path: Path) -> None:
    original = linear(tmp_path / "original.onnx")
    wider = linear(tmp_path / "wider.onnx", width=5)
    with pytest.raises(DriftlineError, match=r"Input x: float32\[2, 4\] .* does not fit x: float32\[2, 5\]"):
        against(checker, wider, original)
    model = onnx.load(original)
    model.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, [2]))
    onnx.save(model, str(tmp_path / "masked.onnx"))
    with pytest.raises(DriftlineError, match=r"takes 2 inputs \(x, mask\), the reference original.onnx 1 input \(x\)"):
        against(checker, str(tmp_path / "masked.onnx"), original)


def test_what_is_not_compared_is_said(checker: Checker, tmp_path: Path) -> None:
    file, reference = linear(tmp_path / "file.onnx"), linear(tmp_path / "reference.onnx")
    more = onnx.load(reference)
    more.graph.output.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, [2, 3]))
    onnx.save(more, reference)
    assert any("h." in note for note in against(checker, file, reference).notes)
    assert against(checker, file, file).notes == ()


def test_a_file_with_operators_of_unknown_meaning_says_so(checker: Checker, tmp_path: Path) -> None:
    file, reference = linear(tmp_path / "file.onnx"), linear(tmp_path / "reference.onnx")
    odd = onnx.load(file)
    odd.graph.node[0].output[0] = "m"
    odd.graph.node.insert(1, helper.make_node("Magic", ["m"], ["h"], domain="my.vendor"))
    odd.opset_import.append(helper.make_opsetid("my.vendor", 1))
    onnx.save(odd, file)
    assert any("my.vendor.Magic" in note for note in against(checker, file, reference).notes)
