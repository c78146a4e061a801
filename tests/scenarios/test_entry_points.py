"""Scripts that compile with other entry points than `torch.compile`: right ones pass, and each faulty one fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftline.cli.script import is_script
from driftline.core.verdict import Judgement
from driftline.execute.pool import Pool
from driftline.scenarios.difference import Change
from driftline.scenarios.entries.files import Files
from driftline.scenarios.judge import ScriptResult, judge_script, play_eagerly
from driftline.scenarios.runs import ScriptOptions
from driftline.scenarios.script import read_script
from typed import typed

SCRIPTS = Path(__file__).parent / "scripts" / "entries"

RIGHT = ["fine_export_state", "fine_export_training", "fine_script_module", "fine_trace", "fine_dynamo"]
MORE_RIGHT = [
    "fine_export_dynamic",
    "fine_export_saved",
    "fine_export_views",
    "fine_export_errors",
    "fine_script_functions",
    "fine_onnx_names",
    "fine_onnx_old_exporter",
    "fine_onnx_program",
    "fine_onnx_changed",
    "fine_onnx_types",
    "fine_onnx_random",
    "fine_package_state",
    "fine_package_inputs",
    "fine_package_constants",
]
WRONG = [
    ("export_loses_update", Change.VALUE, "after the first call of Meter (exported), `self.seen` is wrong"),
    ("wrong_decomposition", Change.VALUE, "after the second call of SiLU (exported), output is wrong"),
    ("wrong_rewrite", Change.VALUE, "after the first call of plus (scripted), output is wrong"),
    ("loses_mutation_in_forward", Change.IDENTITY, "after the first call of Net, input x is an object of its own"),
    (
        "export_crashes",
        Change.ERROR,
        "after the first torch.export.export(), the compiler raises NameError: name '_produce_aten_artifact' is not"
        " defined, eager calls the program on these inputs",
    ),
]
MORE_WRONG = [
    ("package_forgets_buffer", Change.VALUE, "after the second call of Counter (in a package), output 'out' is wrong"),
    ("wrong_translation", Change.VALUE, "after the first call of CELU (in ONNX), output celu is wrong"),
    ("onnx_invalid", Change.ERROR, "after the first onnxruntime.InferenceSession(), the compiler raises Fail"),
]


def _judged(path: Path, pool: Pool) -> ScriptResult:
    script = read_script(path)
    options = ScriptOptions(timeout=280.0)
    return judge_script(script, play_eagerly(script, pool, options, None, lambda text: None), pool, options)


def _require_fault(name: str, change: Change, sentence: str, pool: Pool) -> None:
    result = _judged(SCRIPTS / f"{name}.py", pool)
    assert result.judgement is Judgement.FAIL, result
    assert result.differences[0].change is change
    assert result.differences[0].sentence.startswith(sentence)


@pytest.mark.parametrize("name", RIGHT)
def test_right_script_passes(name: str, pool: Pool) -> None:
    result = _judged(SCRIPTS / f"{name}.py", pool)
    assert (result.judgement, result.differences) == (Judgement.PASS, ())
    assert result.calls > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE_RIGHT)
def test_more_right_scripts_pass(name: str, pool: Pool) -> None:
    assert _judged(SCRIPTS / f"{name}.py", pool).judgement is Judgement.PASS


@pytest.mark.parametrize("name, change, sentence", WRONG, ids=[name for name, *_ in WRONG])
def test_faulty_script_fails(name: str, change: Change, sentence: str, pool: Pool) -> None:
    _require_fault(name, change, sentence, pool)


@pytest.mark.slow
@pytest.mark.parametrize("name, change, sentence", MORE_WRONG, ids=[name for name, *_ in MORE_WRONG])
def test_more_faulty_scripts_fail(name: str, change: Change, sentence: str, pool: Pool) -> None:
    _require_fault(name, change, sentence, pool)


def test_program_that_cannot_be_exported_is_rejected(pool: Pool) -> None:
    result = _judged(SCRIPTS / "export_refuses.py", pool)
    assert result.judgement is Judgement.REJECTED
    assert result.reason.startswith("GuardOnDataDependentSymNode")


@pytest.mark.slow
def test_buffer_that_a_package_does_not_update_is_seen_in_the_next_call(pool: Pool) -> None:
    path = Path(__file__).parents[2] / "benchmarks" / "real_bugs" / "scripts" / "export_counter_in_package.py"
    result = _judged(path, pool)
    assert result.judgement is Judgement.FAIL
    assert result.differences[0].sentence.startswith("after the second call of Counter (in a package), output is wrong")


@pytest.mark.parametrize("name", [*RIGHT, *MORE_RIGHT])
def test_script_is_recognised_by_its_entry_point(name: str) -> None:
    assert is_script(str(SCRIPTS / f"{name}.py"))


def test_script_without_an_entry_point_is_told_which_there_are(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text("import torch\nprint(torch.ones(2))\n")
    done = typed("check", str(path))
    told = (
        "A script is judged as it stands where it calls torch.compile, torch._dynamo.optimize, torch.export, torch.jit,"
    )
    assert (done.returncode, told in done.stderr) == (2, True)


def test_file_is_known_until_it_changes(tmp_path: Path) -> None:
    files: Files[str] = Files()
    path = tmp_path / "net.onnx"
    path.write_bytes(b"one")
    files.remember(path, "made")
    assert (files.known(str(path)), files.known(b"one")) == ("made", "made")
    path.write_bytes(b"two")
    assert files.known(path) is None


def test_equal_files_of_different_objects_are_told_apart_by_path_alone(tmp_path: Path) -> None:
    files: Files[str] = Files()
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"same")
        files.remember(tmp_path / name, name)
    assert (files.known(tmp_path / "b"), files.known(b"same")) == ("b", None)
