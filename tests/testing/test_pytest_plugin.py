"""The pytest plugin, as a user has it: a file of tests run by pytest in processes of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from driftline.testing import planted_plugin
from driftline.testing.requirements import missing

PYTEST = [
    sys.executable, "-m", "pytest", "--rootdir", ".", "-c", "pytest.ini",
    "--driftline-plugin", planted_plugin(),
]  # fmt: skip
SETTINGS = "[pytest]\ndriftline_targets = onnxruntime,onnx-reference\n"
TESTS = """
import numpy as np
import onnx.parser
import pytest

from driftline.testing import planted_plugin
from driftline.testing import assert_close_by_rounding, known_failing_targets, requires

MODEL = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 18]> m (float[4,5] x) => (float[4,5] y) { y = Softmax(x) }'
)
X = {"x": np.linspace(-2, 2, 20, dtype=np.float32).reshape(4, 5)}
RIGHT = np.exp(X["x"]) / np.exp(X["x"]).sum(-1, keepdims=True)
BOTH = ["onnxruntime", "planted-drops-channel"]


@pytest.mark.driftline(targets=["onxruntime"])
def test_mistyped(target, driftline_check):
    driftline_check(MODEL)


@pytest.mark.driftline(targets=BOTH)
def test_each(target, driftline_check):
    driftline_check(MODEL)


@pytest.mark.driftline(targets=BOTH)
@known_failing_targets("planted-drops-channel", reason="it drops a channel")
def test_known(target, driftline_check):
    driftline_check(MODEL)


@pytest.mark.driftline(targets=["onnxruntime"])
@known_failing_targets("onnxruntime", reason="mended long ago")
def test_mended(target, driftline_check):
    driftline_check(MODEL)


@pytest.mark.driftline(targets="onnxruntime,planted-drops-channel")
@known_failing_targets("planted-drops-channel", reason="it drops a channel")
def test_as_on_the_command_line(target, driftline_check):
    driftline_check(MODEL)


@pytest.mark.driftline(targets="onnxruntime,planted-drops-channel")
@known_failing_targets("tvm,planted-drops-channel", reason="it drops a channel")
def test_known_as_on_the_command_line(target, driftline_check):
    driftline_check(MODEL)


@pytest.mark.driftline(targets=5)
def test_a_number(target, driftline_check):
    driftline_check(MODEL)


@pytest.mark.driftline(targets="onnxruntime")
@pytest.mark.driftline_known_failing("onnxruntime")
def test_known_without_a_reason(target, driftline_check):
    driftline_check(MODEL)


@known_failing_targets("planted-drops-channel", reason="it drops a channel")
class TestOfAClass:
    @pytest.mark.driftline(targets="planted-drops-channel")
    def test_with_a_target(self, target, driftline_check):
        driftline_check(MODEL)

    def test_without(self):
        pass


@pytest.mark.driftline(target=["onnxruntime"])
def test_a_strange_keyword(target, driftline_check):
    driftline_check(MODEL)


@pytest.mark.driftline(targets=["onnxruntime"])
@known_failing_targets("onxruntime", reason="mistyped")
def test_a_mistyped_known_failure(target, driftline_check):
    driftline_check(MODEL)


@pytest.mark.driftline(targets=["onnxruntime"])
@known_failing_targets("onnxruntime", reason="without effect")
def test_a_known_failure_of_no_target(driftline_check):
    driftline_check(MODEL)


@pytest.mark.driftline(targets=["planted-drops-channel"])
@known_failing_targets("planted-drops-channel", reason="it drops a channel")
def test_other_errors_are_not_the_known_failure(target):
    raise RuntimeError("something else")


@pytest.mark.driftline(targets=["inductor"])
def test_unfit(driftline_check):
    driftline_check(MODEL)


@pytest.mark.driftline
def test_usual(target, driftline_check):
    driftline_check(MODEL)


@pytest.mark.driftline(targets=["tensorrt"])
def test_not_installed(target):
    raise AssertionError("not reached")


def test_unmarked(target):
    raise AssertionError("not reached")


@requires("package:no_such_package")
def test_needs_a_package():
    raise AssertionError("not reached")


@requires("onxruntime")
def test_needs_an_unknown_backend():
    raise AssertionError("not reached")


def test_numbers():
    assert_close_by_rounding(RIGHT * np.float32(1 + 1e-7), RIGHT, MODEL, X)


def test_wrong_numbers():
    assert_close_by_rounding(RIGHT * np.float32(1.001), RIGHT, MODEL, X)


def test_wrong_expectation():
    assert_close_by_rounding(RIGHT, RIGHT + 1, MODEL, X)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, ElementTree.Element]]:
    """What pytest printed, and its JUnit file by the names of the tests. Two processes write to one store."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "test_mine.py").write_text(TESTS)
    (folder / "pytest.ini").write_text(SETTINGS)
    command = [*PYTEST, "-n", "2", "-q", "-rA", "--junitxml", "junit.xml", "--driftline-store", "store", "test_mine.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=400)
    assert done.returncode == 1, done.stdout + done.stderr
    tree = ElementTree.parse(folder / "junit.xml")
    return done.stdout, {case.attrib["name"]: case for case in tree.iter("testcase")}


def outcome(case: ElementTree.Element) -> str:
    return next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")


EXPECTED = {
    "test_each[onnxruntime]": "passed",
    "test_each[planted-drops-channel]": "failure",
    "test_known[onnxruntime]": "passed",
    "test_known[planted-drops-channel]": "skipped",  # JUnit's word for an expected failure
    "test_mistyped[mistake]": "error",
    "test_as_on_the_command_line[onnxruntime]": "passed",
    "test_as_on_the_command_line[planted-drops-channel]": "skipped",
    "test_known_as_on_the_command_line[onnxruntime]": "passed",
    "test_known_as_on_the_command_line[planted-drops-channel]": "skipped",
    "test_a_number[mistake]": "error",
    "test_known_without_a_reason[mistake]": "error",
    "test_with_a_target[planted-drops-channel]": "skipped",
    "test_without": "passed",
    "test_a_strange_keyword[mistake]": "error",
    "test_a_mistyped_known_failure[mistake]": "error",
    "test_a_known_failure_of_no_target": "error",
    "test_mended[onnxruntime]": "failure",
    "test_other_errors_are_not_the_known_failure[planted-drops-channel]": "failure",
    "test_unfit": "failure",
    "test_usual[onnxruntime]": "passed",
    "test_usual[onnx-reference]": "passed",
    "test_unmarked": "error",
    "test_needs_a_package": "skipped",
    "test_needs_an_unknown_backend": "error",
    "test_numbers": "passed",
    "test_wrong_numbers": "failure",
    "test_wrong_expectation": "failure",
}


def test_every_test_ends_as_it_should(ran: tuple[str, dict[str, ElementTree.Element]]) -> None:
    text, cases = ran
    found = {name: outcome(case) for name, case in cases.items()}
    assert {name: found.get(name) for name in EXPECTED} == EXPECTED, text
    assert found["test_not_installed[tensorrt]"] == ("skipped" if missing("tensorrt") else "failure")


def test_a_failure_tells_the_verdict_and_how_to_see_it_again(ran: tuple[str, dict[str, ElementTree.Element]]) -> None:
    case = ran[1]["test_each[planted-drops-channel]"]
    failure = case.find("failure")
    assert failure is not None and failure.text
    assert "wrong-value" in failure.text and "expected" in failure.text
    properties = {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
    assert properties["driftline.planted-drops-channel"] == "fail"
    assert f"driftline replay {properties['driftline.planted-drops-channel.bug']} --store store" in failure.text


def test_mistakes_are_told_in_a_sentence(ran: tuple[str, dict[str, ElementTree.Element]]) -> None:
    cases = ran[1]
    for name, sentence in {
        "test_unfit": "inductor takes torch programs",
        "test_unmarked": "without @pytest.mark.driftline",
        "test_mistyped[mistake]": "Did you mean 'onnxruntime'",
        "test_a_mistyped_known_failure[mistake]": "Did you mean 'onnxruntime'",
        "test_a_number[mistake]": "5",
        "test_known_without_a_reason[mistake]": "known_failing_targets needs targets and a reason=",
        "test_a_strange_keyword[mistake]": "@pytest.mark.driftline takes targets=[...], not target=.",
        "test_a_known_failure_of_no_target": "let it take the fixture `target`",
        "test_needs_an_unknown_backend": "Did you mean 'onnxruntime'",
        "test_wrong_expectation": "What is expected is not what the program gives",
        "test_wrong_numbers": "than rounding explains",
    }.items():
        told = next(child.text or "" for child in cases[name] if child.tag in ("failure", "error"))
        assert sentence in told, told
    for name in ("test_unfit", "test_unmarked", "test_mistyped[mistake]", "test_needs_an_unknown_backend"):
        told = next(child.text or "" for child in cases[name] if child.tag in ("failure", "error"))
        assert "Traceback" not in told and "src/driftline" not in told


def test_the_command_line_leaves_fewer_targets(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    command = [*PYTEST, "--collect-only", "-q", "-k", "each or usual", "--driftline-targets"]
    done = subprocess.run([*command, "onnxruntime"], cwd=tmp_path, capture_output=True, text=True)
    assert [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line] == [
        "test_each[onnxruntime]",
        "test_usual[onnxruntime]",
    ]


def test_a_mistake_in_an_option_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    """Also where no test asks for a target, and with xdist: a name that is wrong must not pass unseen."""
    (tmp_path / "test_mine.py").write_text("def test_nothing():\n    pass\n")
    for given, sentence in {
        (
            "--driftline-targets",
            "onxruntime",
            "-n",
            "1",
        ): "ERROR: --driftline-targets: Unknown backend 'onxruntime'.",
        ("-o", "driftline_targets=onnxruntime:opt=al"): "ERROR: driftline_targets = onnxruntime:opt=al: Target 'onnx",
    }.items():
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *given]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr
        assert [line[: len(sentence)] for line in done.stderr.splitlines() if line] == [sentence], done.stderr


@pytest.mark.slow
def test_the_page_about_it_holds(tmp_path: Path) -> None:
    """Every block of Python on the page is a test file that passes; what it says is known to fail does fail."""
    page = Path(__file__).parents[2] / "docs/how-to/test-with-pytest.md"
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)):
        (tmp_path / f"test_{number}.py").write_text(block)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run([*PYTEST, "-q"], cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout and "1 xfailed" in done.stdout
