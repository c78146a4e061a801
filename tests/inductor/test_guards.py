"""Graph breaks, guards and recompilations with the real Dynamo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from driftline.core.errors import DriftlineError
from driftline.execute.pool import Pool
from driftline.inductor.guard_words import read_guards
from driftline.inductor.service import DEFAULTS, inspect_program
from driftline.inductor.settings import LabSettings
from inductor.programs import BREAKS, SIZES


def _inspect(pool: Pool, folder: Path, text: str, settings: LabSettings = DEFAULTS, **given: Any) -> Any:
    (folder / "program.py").write_text(text)
    run = inspect_program(f"{folder}/program.py:program", pool, folder / "lab", settings, **given)
    return run.read_json("guards.json")


def test_three_kinds_of_graph_break_are_listed_with_their_lines(pool: Pool, tmp_path: Path) -> None:
    report = _inspect(pool, tmp_path, BREAKS)
    lines = BREAKS.splitlines()
    found = {(lines[one["line"] - 1].strip(), Path(one["file"]).name) for one in report["breaks"]}
    assert found == {
        ('print("shape", x.shape)', "program.py"),
        ("if x.sum() > 0:", "program.py"),
        ("count = int(x.max().item())", "program.py"),
    }
    assert all(one["code"] == lines[one["line"] - 1].strip() for one in report["breaks"])
    assert len(report["graphs"]) == 4
    advice = " ".join(report["advice"])
    assert "Avoid .item()" in advice and "torch.where" in advice and "Remove the print" in advice


def test_a_recompile_storm_is_explained_by_the_guard_that_fails(pool: Pool, tmp_path: Path) -> None:
    shapes = {"x": [(2, 3), (3, 3), (4, 3), (5, 3), (6, 3)]}
    report = _inspect(pool, tmp_path, SIZES, LabSettings(dynamic=False), shapes=shapes)
    assert len(report["recompilations"]) == 4
    for number, one in enumerate(report["recompilations"]):
        assert (one["subject"], one["expected"], one["actual"]) == ("x", str(number + 2), str(number + 3))
        assert "size mismatch at index 0" in one["guard"]
    assert "because of x (size of dimension 0): it was 2, 3, 4, 5, 6" in report["storm"]
    assert "torch._dynamo.mark_dynamic(x, 0)" in report["advice"][0]
    first = [guard["words"] for guard in report["graphs"][0]["guards"]]
    assert "x is a float32 tensor of size [2, 3] on cpu, without gradient" in first


def test_open_sizes_are_compiled_once(pool: Pool, tmp_path: Path) -> None:
    report = _inspect(pool, tmp_path, SIZES, LabSettings(dynamic=True), shapes={"x": [(2, 3), (3, 3), (4, 3)]})
    assert not report["recompilations"] and not report["storm"]


def test_an_unknown_input_is_said_in_a_sentence(pool: Pool, tmp_path: Path) -> None:
    with pytest.raises(DriftlineError, match="no such input, only x, bias"):
        _inspect(pool, tmp_path, SIZES, shapes={"y": [(2, 3)]})


def test_guards_read_as_the_user_would_write_them() -> None:
    text = """\
+- RootGuardManager
| +- GLOBAL_STATE: ___check_global_state() against {"grad_mode":true}
| | +- EQUALS_MATCH: L['self']._modules['block'].scale == 3     # return x * self.scale  # net.py:4 in forward
| | +- ID_MATCH: ___check_obj_id(G['torch'].sin, 2816), type=<class 'builtin'>  # torch.sin(x)  # net.py:5 in forward
| | +- TYPE_MATCH: ___check_type_id(L['mode'], 17), type=<class 'str'>  # mode  # net.py:6 in forward
"""
    assert [(guard.words, guard.about) for guard in read_guards(text)] == [
        ("mode is a str", "input"),
        ("self.block.scale == 3", "module"),
        ("torch.sin is the same object", "global"),
        ("the global settings of torch (grad mode, autocast, default dtype, threads) are the same", "state"),
    ]
