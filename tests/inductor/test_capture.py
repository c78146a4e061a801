"""Capture with the real compiler: training with two graphs, and two captures at once that do not mix."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from driftline.cli import run as command
from driftline.core.errors import DriftlineError
from driftline.execute.pool import Pool
from driftline.inductor import Lab, LabRun
from driftline.inductor.analysis import analyze_guards
from driftline.inductor.service import capture_program
from driftline.inductor.settings import LabSettings
from inductor.programs import BREAKS, OTHER, TRAINED

AOT_EAGER = LabSettings(backend="aot_eager")


@pytest.fixture(scope="module")
def captures(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> tuple[LabRun, LabRun]:
    """Two captures into one folder, at the same time."""
    folder = tmp_path_factory.mktemp("captures")
    (folder / "trained.py").write_text(TRAINED)
    (folder / "other.py").write_text(OTHER)
    lab = folder / "lab"
    with ThreadPoolExecutor(2) as threads:
        trained = threads.submit(capture_program, f"{folder}/trained.py:program", pool, lab, LabSettings(grad=True))
        other = threads.submit(capture_program, f"{folder}/other.py:program", pool, lab, AOT_EAGER)
        (first, problem), (second, trouble) = trained.result(), other.result()
    assert not problem and not trouble
    return first, second


def _compilation(run: LabRun) -> Any:
    (one,) = run.read_json("capture.json")["compilations"]
    return one


def test_training_is_captured_with_both_its_graphs(captures: tuple[LabRun, LabRun]) -> None:
    one = _compilation(captures[0])
    assert {"pre_aot", "joint", "forward", "backward", "post_grad", "post_grad_backward"} <= set(one["graphs"])
    folder = captures[0].folder / one["folder"]
    for name in ("forward", "backward"):
        assert "size" in (folder / f"ir_before_fusion-{name}.txt").read_text()
        assert "size" in (folder / f"ir_after_fusion-{name}.txt").read_text()
        assert "def call" in (folder / f"code-{name}.py").read_text()
    assert "TREE_GUARD_MANAGER" in one["guards"]
    assert one["times"]["entire_frame_compile"] > 0


def test_a_node_leads_to_its_line_and_its_kernel(captures: tuple[LabRun, LabRun]) -> None:
    one = _compilation(captures[0])
    sine = next(node for node in one["graphs"]["post_grad"]["nodes"] if node["op"] == "aten.sin.default")
    line = next(at for at, text in enumerate(TRAINED.splitlines(), 1) if "torch.sin" in text)
    assert sine["source"]["file"].endswith("trained.py") and sine["source"]["line"] == line
    (kernel,) = [k for k in one["kernels"] if k["stage"] == "post_grad" and sine["name"] in k["nodes"]]
    assert kernel["language"] == "C++" and ".sin()" in kernel["source"]
    assert (captures[0].folder / kernel["file"]).read_text() == kernel["source"]
    backward = [k for k in one["kernels"] if k["stage"] == "post_grad_backward"]
    assert backward and all(k["nodes"] for k in backward)


def test_the_page_stands_alone_and_joins_line_node_and_kernel(captures: tuple[LabRun, LabRun]) -> None:
    page = captures[0].read("index.html")
    assert "src=" not in page and "http://www.w3.org/2000/svg" in page and "https://" not in page.split("<section")[0]
    assert 'data-node="sin"' in page and 'data-kernel="1"' in page and "trained.py" in page


def test_captures_at_the_same_time_do_not_mix(captures: tuple[LabRun, LabRun]) -> None:
    trained, other = (json.dumps(_compilation(run)["graphs"]) for run in captures)
    assert "cosh" in other and "cosh" not in trained
    assert "relu" in trained and "relu" not in other
    assert captures[0].folder.parent == captures[1].folder.parent
    assert not _compilation(captures[1])["kernels"]  # this backend generates none


def test_the_folder_is_analyzed_and_reported(captures: tuple[LabRun, LabRun], capfd: Any, tmp_path: Path) -> None:
    lab = captures[0].folder.parent
    assert command(["inductor", "analyze", str(captures[0].folder), "--json"]) == 0
    (one,) = json.loads(capfd.readouterr().out)["compilations"]
    assert one["graphs"]["forward"]["flops"] > 2 * 2 * 4 * 3
    assert command(["inductor", "report", str(lab), "--format", "json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["runs"]) == 2
    page = tmp_path / "lab.html"
    assert command(["inductor", "report", str(lab), "--out", str(page)]) == 0
    assert page.read_text().count("the page of the capture") == 2


@pytest.mark.parametrize(
    "words", [["analyze"], ["analyze", "--type", "guards"], ["report"], ["report", "--format=json"]]
)
def test_an_empty_or_half_written_folder_is_said_in_a_sentence(words: list[str], tmp_path: Path, capfd: Any) -> None:
    name, *options = words
    for folder, told in ((tmp_path / "none", "no such folder"), (tmp_path, "holds no runs")):
        assert command(["inductor", name, str(folder), *options]) == 2
        assert told in capfd.readouterr().err
    run = Lab(tmp_path).new_run("capture")
    assert command(["inductor", name, str(tmp_path), *options]) == 2
    assert "incomplete" in capfd.readouterr().err
    run.finish()
    assert command(["inductor", name, str(tmp_path), *options]) == 2
    assert "damaged" in capfd.readouterr().err


def test_what_torch_does_not_know_is_said_in_a_sentence(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(OTHER)
    with pytest.raises(DriftlineError, match=r"no backend 'inducter'.*inductor"):
        capture_program(f"{tmp_path}/other.py:program", pool, tmp_path / "lab", LabSettings(backend="inducter"))
    assert not (tmp_path / "lab").exists()


def test_breaks_of_a_capture_are_counted(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "breaks.py").write_text(BREAKS)
    run, problem = capture_program(f"{tmp_path}/breaks.py:program", pool, tmp_path / "lab", AOT_EAGER)
    assert not problem
    found = analyze_guards(Lab(tmp_path / "lab"))
    assert [one["line"] for one in found["breaks"]] == [7, 9, 11]
    assert found["graphs"][1]["function"] == "forward (after line 7)"
    compilations = run.read_json("capture.json")["compilations"]
    assert all(graph["nodes"] for one in compilations for graph in one["graphs"].values())
