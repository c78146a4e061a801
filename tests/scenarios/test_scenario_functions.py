"""Functions that take `compile`: written by hand, checked from the command line, from Python and in tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import driftline
from driftline.core.errors import DriftlineError
from driftline.testing import JudgedWrong, assert_scenario
from typed import typed

FILE = Path(__file__).parent / "scripts" / "counters.py"


def test_function_that_takes_compile_is_checked_from_the_command_line(store_folder: Path) -> None:
    done = typed("check", f"{FILE}:right", "--targets", "aot_eager", "--store", str(store_folder))
    assert done.returncode == 0, done.stderr
    assert "2 calls of compiled code" in done.stdout


def test_fault_in_a_later_call_fails_the_assertion_and_is_kept(store_folder: Path) -> None:
    with pytest.raises(JudgedWrong, match=r"after the second call of <lambda>, output is wrong") as raised:
        assert_scenario(f"{FILE}:stale", store=store_folder)
    (bug,) = driftline.open(store_folder).store.bugs()
    assert f"driftline replay {bug.id}" in str(raised.value)


def test_assertion_takes_the_function_itself(monkeypatch: pytest.MonkeyPatch, store_folder: Path) -> None:
    monkeypatch.syspath_prepend(str(FILE.parent))
    import counters

    assert_scenario(counters.right, targets=["aot_eager"], store=store_folder)
    sys.modules.pop("counters")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("rihgt", "has no function 'rihgt'. Did you mean 'right'"),
        ("two", "a function with one parameter, `compile`"),
    ],
)
def test_what_is_no_scenario_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(DriftlineError, match=sentence):
        driftline.check_script(f"{FILE}:{name}")


def test_function_inside_another_one_is_refused() -> None:
    def scenario(compile: object) -> None: ...

    with pytest.raises(DriftlineError, match="is not at the top of a file"):
        assert_scenario(scenario)


def test_function_of_the_page_passes_in_the_test_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_folder: Path
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "check-a-script.md").read_text()
    blocks = [block.partition("```")[0] for block in page.split("```python\n")[1:]]
    (tmp_path / "counter.py").write_text(next(block for block in blocks if "class Counter" in block))
    (tmp_path / "test_counter.py").write_text(
        next(block for block in blocks if "assert_scenario" in block).replace(', "inductor"', "")
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("DRIFTLINE_STORE", str(store_folder))
    import test_counter

    test_counter.test_counter_is_compiled_right()
