"""Checks tell a bug from a right result, whatever the kind of failure."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from driftline.core.evidence import NOTHING, Element, Evidence
from driftline.core.tensors import Array
from driftline.core.verdict import Kind
from driftline.programs.factory_text import draws_random, read_factory, used_imports, writes_in_place
from driftline.report.scripts.check import WordsIn, check_for, telling_words
from driftline.report.scripts.failure import ShownFailure
from driftline.report.scripts.recipe import Recipe
from driftline.report.scripts.render import check_script, regression_test
from driftline.report.scripts.tolerance import ScriptTolerance, tolerance

RIGHT = "[np.array([1.0, np.inf, np.nan, -0.0], dtype=np.float32)]"
ONE = Element((0,), 1.0, 1.5)
# kind, what the compiler gives, what the verdict wrote down
WRONG = [
    (Kind.WRONG_VALUE, RIGHT.replace("1.0", "1.5"), Evidence(worst=(ONE,), error=0.5, sigma=1e-8)),
    (Kind.WRONG_NONFINITE, RIGHT.replace("np.inf", "3e38"), Evidence(worst=(Element((0,), math.inf, 3e38),))),
    (Kind.WRONG_NONFINITE, RIGHT.replace("np.inf", "np.nan"), Evidence(worst=(Element((0,), math.inf, math.nan),))),
    (Kind.WRONG_DTYPE, RIGHT.replace("float32", "float64"), NOTHING),
    (Kind.WRONG_SHAPE, "[np.zeros((2, 2), dtype=np.float32)]", NOTHING),
    (Kind.WRONG_ZERO_SIGN, RIGHT.replace("-0.0", "0.0"), NOTHING),
    (Kind.WRONG_STRUCTURE, f"{RIGHT} * 2", NOTHING),
    (Kind.ERROR, "fail('no kernel for 17 things')", NOTHING),
]


def recipe(got: str, expected: str = RIGHT) -> Recipe:
    fail = "def fail(text):\n    raise RuntimeError(text)\n"
    return Recipe("numpy", ("numpy",), ("import numpy as np",), (fail,), (), expected, got)


def ending(text: str) -> object:
    """What a script leaves with: 0, or the words for stderr."""
    try:
        exec(compile(text, "script.py", "exec"), {"__name__": "__main__"})
    except SystemExit as left:
        return left.code or 0
    return 0


@pytest.mark.parametrize(("kind", "got", "evidence"), WRONG, ids=[f"{w[0]}-{i}" for i, w in enumerate(WRONG)])
def test_a_script_says_bug_for_the_bug_alone(kind: Kind, got: str, evidence: Evidence) -> None:
    failing = ShownFailure(kind, evidence, "no kernel for 17 things")
    wrong, right = recipe(got), recipe(RIGHT)
    assert str(ending(check_script(wrong, check_for(failing, wrong)))).startswith("BUG:")
    assert ending(check_script(right, check_for(failing, right))) == 0


@pytest.mark.parametrize(("kind", "got", "evidence"), WRONG, ids=[f"{w[0]}-{i}" for i, w in enumerate(WRONG)])
def test_a_test_fails_for_the_bug_alone(kind: Kind, got: str, evidence: Evidence) -> None:
    failing = ShownFailure(kind, evidence, "no kernel for 17 things")
    for given, fails in ((got, True), (RIGHT, False)):
        made = recipe(given)
        names: dict[str, object] = {}
        exec(regression_test(made, check_for(failing, made), "it"), names)
        if fails:
            with pytest.raises((AssertionError, RuntimeError)):
                names["test_it"]()  # type: ignore[operator]
        else:
            names["test_it"]()  # type: ignore[operator]


def test_a_result_where_an_error_is_due() -> None:
    failing = ShownFailure(Kind.MISSING_ERROR, NOTHING)
    raising = "fail('dtypes differ')"
    bug = recipe(RIGHT, expected=raising)
    assert str(ending(check_script(bug, check_for(failing, bug)))).startswith("BUG:")
    fine = recipe(raising, expected=raising)
    assert ending(check_script(fine, check_for(failing, fine))) == 0


@pytest.mark.parametrize(
    ("kind", "got"),
    [
        pytest.param(Kind.CRASH, "os.abort()", id="crash"),
        pytest.param(Kind.TIMEOUT, "threading.Event().wait()", id="timeout", marks=pytest.mark.slow),
    ],
)
def test_what_kills_or_hangs_gets_a_process_of_its_own(tmp_path: Path, kind: Kind, got: str) -> None:
    failing = ShownFailure(kind, NOTHING, timeout=8)  # enough for a script that starts on a busy machine
    for given, status in ((got, 1), (RIGHT, 0)):
        made = replace(recipe(given), imports=("import os", "import threading", "import numpy as np"))
        check = check_for(failing, made)
        (tmp_path / "script.py").write_text(check_script(made, check))
        done = subprocess.run([sys.executable, "-I", str(tmp_path / "script.py")], capture_output=True, text=True)
        assert (done.returncode, "BUG:" in done.stderr) == (status, bool(status)), done.stderr
        test = regression_test(made, check, "it") + "\n\ntest_it()\n"
        (tmp_path / "test.py").write_text(test)
        done = subprocess.run([sys.executable, "-I", str(tmp_path / "test.py")], capture_output=True, text=True)
        assert (done.returncode, "AssertionError" in done.stderr) == (status, bool(status)), done.stderr


MANY = "np.random.default_rng({seed}).normal(1.0, 1e-7, 4000)"


@pytest.mark.parametrize("direction", ["scale over the whole tensor", "mean over the whole tensor"])
def test_a_drift_is_told_from_rounding(direction: str) -> None:
    failing = ShownFailure(Kind.BIAS, Evidence(direction=direction))
    expected = f"[{MANY.format(seed=1)}]"
    drifting = recipe(f"[{MANY.format(seed=2)} + 3e-8]", expected)
    assert "standard errors" in str(ending(check_script(drifting, check_for(failing, drifting))))
    for got in (f"[{MANY.format(seed=2)}]", expected):
        rounding = recipe(got, expected)
        assert ending(check_script(rounding, check_for(failing, rounding))) == 0


def test_memory_has_a_limit(tmp_path: Path) -> None:
    failing = ShownFailure(Kind.OOM, NOTHING, memory=1 << 30)
    for given, status in (("[bytearray(2 << 30)[:4]]", 1), (RIGHT, 0)):
        made = recipe(given)
        for name, text in (
            ("script.py", check_script(made, check_for(failing, made))),
            ("test.py", regression_test(made, check_for(failing, made), "it") + "\n\ntest_it()\n"),
        ):
            (tmp_path / name).write_text(text)
            done = subprocess.run([sys.executable, "-I", str(tmp_path / name)], capture_output=True, text=True)
            assert done.returncode == status, done.stderr
            assert ("BUG: 1 GiB of memory are not enough" in done.stderr) == (name == "script.py" and status == 1)


def test_an_exception_is_not_a_crash(tmp_path: Path) -> None:
    made = recipe("fail('disk is full')")
    (tmp_path / "script.py").write_text(
        check_script(made, check_for(ShownFailure(Kind.CRASH, NOTHING, ending="SIGSEGV"), made))
    )
    done = subprocess.run([sys.executable, "-I", str(tmp_path / "script.py")], capture_output=True, text=True)
    assert "disk is full" in done.stderr and "BUG:" not in done.stderr


def test_another_error_is_not_the_bug() -> None:
    made = recipe("fail('disk is full')")
    with pytest.raises(RuntimeError, match="disk is full"):
        ending(check_script(made, check_for(ShownFailure(Kind.ERROR, NOTHING, "no kernel for 17 things"), made)))


def test_an_error_inside_another_one_is_looked_for_in_both() -> None:
    """onnxscript raises "An error occurred at step 0" because of what a rule raised; the bug is what the rule said."""
    failing = ShownFailure(Kind.ERROR, NOTHING, "no kernel for 17 things")
    wrap = (
        "def wrap(text):\n    try:\n        fail(text)\n"
        "    except Exception as e:\n        raise ValueError('at step 0') from e\n"
    )

    def script(message: str) -> str:
        made = recipe(f"wrap({message!r})")
        made = replace(made, definitions=(*made.definitions, wrap))
        return check_script(made, check_for(failing, made, told=WordsIn.TRACEBACK))

    assert ending(script("no kernel for 3 things")) == "BUG: ValueError: at step 0"
    with pytest.raises(ValueError, match="at step 0"):
        ending(script("disk is full"))


def test_nan_in_another_output_is_no_difference() -> None:
    failing = ShownFailure(Kind.WRONG_VALUE, Evidence(worst=(Element((0,), 1, 2),)), dtype="int64")
    right = "[np.array([np.nan]), np.array([1])]"
    for got, fails in ((right, False), ("[np.array([np.nan]), np.array([2])]", True)):
        made = recipe(got, right)
        assert bool(ending(check_script(made, check_for(failing, made)))) is fails


def test_words_that_only_the_log_has_are_not_looked_for_in_the_error() -> None:
    """ExecuTorch raises "failed with error 0x12", and says why on stderr."""
    made = recipe("fail('failed with error 0x12')")
    check = check_for(ShownFailure(Kind.ERROR, NOTHING, "padding must not be negative"), made, told=WordsIn.LOG)
    assert ending(check_script(made, check)) == "BUG: RuntimeError: failed with error 0x12"
    assert "# The log says why: padding must not be negative" in check_script(made, check)


@pytest.mark.parametrize("own_process", [False, True])
def test_the_death_of_a_compiler_that_is_a_process_of_its_own_is_an_exception(own_process: bool) -> None:
    made = replace(recipe("fail('iree-compile: Error code: -11')"), own_process=own_process)
    check = check_for(ShownFailure(Kind.CRASH, NOTHING, ending="SIGSEGV"), made)
    assert ("if ended:" in check.lines) is own_process and ("if ended < 0:" in check.lines) is not own_process


def value_failure(
    error: float, sigma: float, dtype: str = "float32", at: float = 1.0, **results: Array
) -> ShownFailure:
    element = Element((0,), at, at + error)
    evidence = Evidence(output="y", worst=(element,), error=error, sigma=sigma)
    return ShownFailure(Kind.WRONG_VALUE, evidence, dtype=dtype, **{k: {"y": v} for k, v in results.items()})  # type: ignore[arg-type]


def allows(found: ScriptTolerance, error: float, at: float = 1.0) -> bool:
    return error <= found.atol + found.rtol * at


def test_small_errors_get_a_bound_of_their_own() -> None:
    """float64 computed in float32: far below the default tolerance of float32, far above its own noise."""
    found = tolerance(value_failure(3e-9, 1e-16, "float64"))
    assert allows(found, 8e-16) and not allows(found, 3e-9) and not found.is_default and found.separates
    noisy = tolerance(value_failure(0.5, 1e-3))
    assert allows(noisy, 8e-3) and not allows(noisy, 0.5), "rounding is larger than the default here"
    assert tolerance(ShownFailure(Kind.WRONG_VALUE, NOTHING, dtype="int64")).is_exact


def test_a_tolerance_lets_correctly_rounded_results_pass_everywhere() -> None:
    """A small number is wrong by much less than rounding does to the large numbers beside it."""
    right = np.float32([1e-8, 0.7615942, 0.9640276])
    expected = np.nextafter(right, np.float32(2))
    found = tolerance(value_failure(1e-11, 1e-16, at=1e-8, expected=expected, right=right))
    assert found.separates and not allows(found, 1e-11, 1e-8)
    assert np.allclose(right, expected, rtol=found.rtol, atol=found.atol)


def test_a_tolerance_that_does_not_exist_is_not_made_up() -> None:
    """The unoptimised result is itself further from the right one than the compiler's error."""
    right = np.float32([1.0, 1.0])
    found = tolerance(value_failure(1e-6, 1e-8, expected=right + np.float32([0, 1e-3]), right=right))
    assert not found.separates and "No tolerance" in found.remark


def test_wrong_elements_are_printed_by_index_and_only_a_few(capsys: pytest.CaptureFixture[str]) -> None:
    expected = "[np.zeros((40, 50), np.float32)]"
    made = recipe("[np.where(np.arange(2000).reshape(40, 50) > 100, np.float32(0.5), np.float32(0))]", expected)
    failing = value_failure(0.5, 1e-9, at=0.0, expected=np.zeros((40, 50), np.float32))
    assert ending(check_script(made, check_for(failing, made))) == "BUG: 1899 of 2000 elements are wrong"
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "[2, 1]: expected 0.0, got 0.5" and len(shown) == 5


def test_only_the_wrong_output_is_compared() -> None:
    made = recipe("[np.array([1.0]), np.array([2.5])]", "[np.array([9.0]), np.array([2.0])]")
    outputs = {"x": np.array([9.0]), "y": np.array([2.0])}
    found = Evidence(output="y", worst=(Element((0,), 2.0, 2.5),), error=0.5, sigma=1e-16)
    check = check_for(ShownFailure(Kind.WRONG_VALUE, found, dtype="float64", expected=outputs), made)
    assert ending(check_script(made, check)) == "BUG: 1 of 1 elements are wrong"
    assert ending(check_script(replace(made, got="[np.array([1.0]), np.array([2.0])]"), check)) == 0


def test_a_result_that_is_written_out_stands_alone() -> None:
    made = recipe("[np.float32([1.5])]", "[np.float32([1.0])]")
    failing = value_failure(0.5, 1e-9, expected=np.float32([1.0]))
    assert "expected = np.float32([1.0])\n" in check_script(made, check_for(failing, made))


def test_an_error_without_words_is_known_by_its_type() -> None:
    made = recipe("fail('17')")
    check = check_for(ShownFailure(Kind.ERROR, NOTHING, "17", ending="RuntimeError"), made)
    assert ending(check_script(made, check)) == "BUG: RuntimeError: 17"
    other = check_for(ShownFailure(Kind.ERROR, NOTHING, "17", ending="ValueError"), made)
    with pytest.raises(RuntimeError):
        ending(check_script(made, other))


def test_telling_words_hold_no_numbers() -> None:
    assert telling_words("Fail: 1 : while fusing nodes of 17 at lib/x.cc:83") == "while fusing nodes of"
    assert telling_words("") == ""
    named = "lib/clip.cc:83 virtual ns::Status ns::Fuse::Apply(ns::Graph&) const Unexpected type for 'min' input of 11"
    assert telling_words(named) == "Unexpected type for 'min' input of"
    assert telling_words("loc(unknown): LLVM Translation failed") == "LLVM Translation failed"
    followed = "lib/full.cc:26 Size(bias) != Size(filter, 0).Failed to apply the default delegate of this interpreter"
    assert telling_words(followed) == "Size(bias) != Size(filter"


def test_a_factory_is_taken_apart() -> None:
    text = (
        '"""Words."""\nimport numpy as np\nimport torch\nfrom torch import nn\n\nSIZE = 3\n\n\n'
        "def program():\n    width = SIZE * 2\n    unused = np.ones(3)\n    x = torch.randn(\n        width\n    )\n"
        "    return nn.Linear(width, 1).eval(), (x, torch.zeros(2))\n"
    )
    parts = read_factory(text, "program")
    assert parts
    assert (parts.model, parts.inputs) == ("nn.Linear(width, 1).eval()", ("x", "torch.zeros(2)"))
    assert parts.needed(parts.model) == ["width = SIZE * 2"]
    assert parts.needed(parts.model, *parts.inputs) == ["width = SIZE * 2", "x = torch.randn(\n    width\n)"]
    assert parts.definitions == ("SIZE = 3",)
    assert used_imports(parts.imports, "nn.Linear(torch.x)") == ["import torch", "from torch import nn"]


def test_functions_in_a_factory_stand_beside_it() -> None:
    text = (
        "import torch\n\n\ndef other():\n    return torch.sin, (torch.ones(2),)\n\n\n"
        "def program():\n    scale = 3\n    x = torch.randn(4)\n    unused = torch.randn(5)\n\n"
        "    def f(x):\n        return x * scale\n\n    def g(x):\n        return x\n\n    return f, (x,)\n"
    )
    parts = read_factory(text, "program")
    assert parts and parts.definitions == ("def f(x):\n    return x * scale",), "no other program, no unused function"
    assert parts.needed(parts.model) == ["scale = 3"]
    assert parts.needed(parts.model, *parts.inputs) == ["scale = 3", "x = torch.randn(4)"]


@pytest.mark.parametrize(
    "nested",
    [
        "    @torch.no_grad()\n    def f(x):",
        "    def f(x, y=len('a')):",
        "    def torch(x):",
        "    def f(x):\n        nonlocal y",
    ],
)
def test_a_function_that_cannot_stand_outside_keeps_its_factory(nested: str) -> None:
    text = f"import numpy as torch\ndef program():\n    y = 1\n{nested}\n        return x\n    return f, (1,)\n"
    assert read_factory(text, "program") is None


@pytest.mark.parametrize(
    "body",
    ["    if True:\n        return f, (1,)\n", "    return f, inputs()\n", "    return f, (*many,)\n", "    pass\n"],
)
def test_a_factory_that_does_more_is_called_as_it_is(body: str) -> None:
    assert read_factory(f"def program():\n{body}", "program") is None


@pytest.mark.parametrize(("kind", "got", "evidence"), WRONG, ids=[f"{w[0]}-{i}" for i, w in enumerate(WRONG)])
def test_one_output_is_compared_in_one_line(kind: Kind, got: str, evidence: Evidence) -> None:
    failing = ShownFailure(kind, evidence, "no kernel for 17 things", expected={"y": np.zeros(4, np.float32)})
    wrong, right = recipe(got), recipe(RIGHT)
    script = check_script(wrong, check_for(failing, wrong))
    assert str(ending(script)).startswith("BUG:")
    assert ending(check_script(right, check_for(failing, right))) == 0
    assert max(map(len, script.splitlines())) <= 120


def test_values_survive() -> None:
    """The array of an error check is compared bit by bit where nothing rounds."""
    made = recipe("[np.array([2**53 + 1])]", expected="[np.array([2**53])]")
    failing = ShownFailure(Kind.WRONG_VALUE, NOTHING, dtype=np.dtype("int64").name)
    assert str(ending(check_script(made, check_for(failing, made)))).startswith("BUG:")


def test_what_writes_into_its_inputs() -> None:
    for text in (
        "x.add_(1)",
        "x[0] = 1",
        "x += 1",
        "torch.neg(x, out=y)",
        "F.embedding(i, w, max_norm=1.0)",
        "operator.setitem(x, 0, 1)",
        "x.__iadd__(1)",
    ):
        assert writes_in_place([text]), text
    for text in ("super().__init__()", "x == y", "f(x, dim=0)", "self._private(x)"):
        assert not writes_in_place([text]), text
    assert draws_random(["nn.Linear(2, 3)"]) and not draws_random(["class Net(nn.Module):", "nn.Parameter(x)"])
