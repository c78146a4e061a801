"""Lab folders: runs do not mix, and clean removes what the lab wrote and nothing else."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from driftline.cli import run as command
from driftline.core.errors import DriftlineError
from driftline.inductor import Lab


def test_clean_removes_only_what_the_lab_wrote(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    run = lab.new_run("capture", "my model")
    run.write("graphs/0/forward.py", "x = 1\n")
    run.write("index.html", "<p>")
    run.finish(graphs=1)
    (run.folder / "graphs" / "notes.txt").write_text("mine")
    other = lab.folder / "photos"
    other.mkdir()
    (other / "run.json").write_text(json.dumps({"files": ["cat.png"]}))  # somebody else's manifest
    (other / "cat.png").write_text("meow")
    done = lab.clean()
    assert (done.runs, done.files) == (1, 3)
    left = sorted(str(path.relative_to(lab.folder)) for path in lab.folder.rglob("*") if path.is_file())
    assert left == [str((run.folder / "graphs/notes.txt").relative_to(lab.folder)), "photos/cat.png", "photos/run.json"]
    assert str(run.folder / "graphs" / "notes.txt") in done.kept


def test_clean_follows_no_link_and_no_name_that_leads_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep.txt").write_text("keep")
    lab = Lab(tmp_path / "lab")
    run = lab.new_run("capture")
    run.write("kernels/keep.txt", "ours")
    (run.folder / "kernels" / "keep.txt").unlink()
    (run.folder / "kernels").rmdir()
    (run.folder / "kernels").symlink_to(outside)
    forged = lab.new_run("capture")
    manifest = json.loads((forged.folder / "run.json").read_text())
    (forged.folder / "run.json").write_text(json.dumps({**manifest, "files": ["../../outside/keep.txt"]}))
    lab.clean()
    assert (outside / "keep.txt").read_text() == "keep"


def test_an_empty_run_folder_is_gone_and_the_lab_folder_with_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    lab.new_run("guards").write("guards.json", "{}")
    lab.clean()
    assert not lab.folder.exists()


def test_runs_that_are_made_at_once_have_folders_of_their_own(tmp_path: Path) -> None:
    def one(number: int) -> None:
        run = Lab(tmp_path).new_run("capture", "same")
        run.write("number.txt", str(number))
        run.finish(number=number)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(one, range(32)))
    runs = Lab(tmp_path).runs()
    assert sorted(run.summary["number"] for run in runs) == list(range(32))
    assert all(run.read("number.txt") == str(run.summary["number"]) for run in runs)


def test_what_is_missing_or_incomplete_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DriftlineError, match="no such folder"):
        Lab(tmp_path / "none").require_run()
    with pytest.raises(DriftlineError, match="holds no runs of the lab"):
        Lab(tmp_path).require_run()
    Lab(tmp_path).new_run("capture")
    with pytest.raises(DriftlineError, match="incomplete"):
        Lab(tmp_path).require_run(["capture"])


def test_list_and_clean_as_commands(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = Lab(tmp_path).new_run("guards", "net")
    run.finish(graphs=3)
    assert command(["inductor", "list", str(tmp_path), "--json"]) == 0
    listed = json.loads(capfd.readouterr().out)["runs"]
    assert [(one["kind"], one["name"], one["summary"]) for one in listed] == [("guards", "net", {"graphs": 3})]
    assert command(["inductor", "clean", str(tmp_path)]) == 0
    assert "Removed 1 run (1 file)" in capfd.readouterr().out
    assert command(["inductor", "clean", str(tmp_path / "none")]) == 2


def test_what_a_mock_backend_wrote_is_analyzed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from driftline.hardware.facts import SourceLine
    from driftline.hardware.violation import Violation

    line = SourceLine("net.py", 7, "return x @ w")
    found = Violation("shape", "forward", "mm", "aten.mm", "float32[24, 8]", "multiples of 32", "[32, 32]", line)
    run = Lab(tmp_path).new_run("mock", "npu")
    run.write_json("violations.json", {"schema": 1, "violations": [found.to_json()]})
    run.finish(violations=1)
    assert command(["inductor", "analyze", str(tmp_path), "--type", "constraints"]) == 0
    told = capfd.readouterr().out
    assert "net.py:7  aten.mm (mm in forward)" in told and "shape: float32[24, 8]; allowed: multiples of 32" in told


def test_list_of_a_missing_folder_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert command(["inductor", "list", str(tmp_path / "nowhere")]) == 2
    assert "nowhere: there is no such folder; `driftline inductor capture" in capfd.readouterr().err


def test_analyze_says_what_makes_the_missing_run_and_what_shows_those_there(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(tmp_path / "lab")
    run = lab.new_run("guards", "net")
    run.write("guards.json", "{}")
    run.finish(graphs=1, breaks=2, recompilations=0)
    assert command(["inductor", "analyze", str(lab.folder)]) == 2
    told = capfd.readouterr().err
    assert "holds no run of the kind capture, only guards." in told
    assert "Make one with `driftline inductor capture file.py:name`" in told
    assert "what is there, `driftline inductor analyze --type guards` shows." in told
    assert command(["inductor", "list", str(lab.folder)]) == 0
    listed = capfd.readouterr()
    assert "1 graph, 2 breaks, 0 recompilations" in listed.out and listed.err == f"1 run in {lab.folder}.\n"
    assert command(["inductor", "clean", str(lab.folder)]) == 0
    assert "Removed 1 run (2 files)" in capfd.readouterr().out


def test_a_report_names_unfinished_runs_and_goes_with_the_runs(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    whole = lab.new_run("mock", "npu")
    whole.write_json("violations.json", {"schema": 1, "violations": []})
    whole.finish(violations=0)
    killed = lab.new_run("capture", "net")
    assert command(["inductor", "report", str(lab.folder)]) == 0
    assert f"{killed.folder.name} is incomplete" in (lab.folder / "report.html").read_text()
    lab.clean()
    assert not lab.folder.exists()


def test_a_report_of_somebody_else_stays(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.new_run("capture").finish()
    (tmp_path / "report.html").write_text("<title>my own report</title>")
    lab.clean()
    assert (tmp_path / "report.html").exists()
