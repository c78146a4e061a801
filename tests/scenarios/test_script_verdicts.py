"""Scripts with one fault each, and right ones: which event differs, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftline.core.verdict import Judgement
from driftline.execute.pool import Pool
from driftline.scenarios.difference import Change
from driftline.scenarios.judge import ScriptResult, judge_script, play_eagerly
from driftline.scenarios.runs import ScriptOptions
from driftline.scenarios.script import read_script

SCRIPTS = Path(__file__).parent / "scripts"

WRONG = [
    ("lost_mutation", Change.VALUE, "after the first call of step, input state is wrong"),
    ("stale_second_call", Change.VALUE, "after the second call of double, output is wrong"),
    (
        "lost_sharing",
        Change.SHARING_LOST,
        "after the first call of halves, output 0 shares memory with input x under eager and not when compiled",
    ),
    ("lost_requires_grad", Change.REQUIRES_GRAD, "after the first call of model, requires_grad of output 1 is lost"),
    ("wrong_gradient", Change.VALUE, "after the first backward(), `self.weight.grad` is wrong"),
    (
        "lost_error",
        Change.MISSING_ERROR,
        "after the first call of pick, eager raises IndexError: index 7 is out of bounds for dimension 0 with size 3,"
        " the compiled function returns a value",
    ),
    (
        "lost_append",
        Change.SIZE,
        "after the second call of Recorder, `self.history` has 1 element, eager has 2",
    ),
]
MORE_WRONG = [
    ("lost_buffer", Change.VALUE, "after the first call of Counter, `self.seen` is wrong"),
    ("extra_draw", Change.RANDOM, "after the first call of <lambda>, the random state of torch is another one"),
    ("grad_mode_left_off", Change.MODE, "after the first call of <lambda>, the mode gradients is False"),
    ("slightly_wrong", Change.VALUE, "after the first call of Sequential, output is wrong"),
    ("process_dies", Change.CRASH, "in the first call of <lambda>, the process died: SIGABRT"),
    ("same_graph_twice", Change.ERROR, "after the second call of <lambda>, the compiled function raises"),
    ("unused_draw", Change.RANDOM, "after the first call of choose, the random state of torch is another one"),
    ("error_in_a_loop", Change.ERROR, "after the first call of doubled, the compiled function raises BackendCompiler"),
    ("compiler_error", Change.ERROR, "after the first call of <lambda>, the compiled function raises BackendCompiler"),
]
RIGHT = ["fine_state", "fine_training", "fine_own_comparison", "fine_error"]
MORE_RIGHT = [
    "fine_cancellation",
    "fine_threads",
    "fine_random",
    "fine_own_backend",
    "fine_fresh_memory",
    "fine_graph_breaks",
    "fine_views",
    "fine_methods",
]


def _judged(name: str, pool: Pool) -> ScriptResult:
    script = read_script(SCRIPTS / f"{name}.py")
    options = ScriptOptions(timeout=120.0)
    return judge_script(script, play_eagerly(script, pool, options, None, lambda text: None), pool, options)


def _require_fault(name: str, change: Change, sentence: str, pool: Pool) -> None:
    result = _judged(name, pool)
    assert result.judgement is Judgement.FAIL, result
    assert result.differences[0].change is change
    assert result.differences[0].sentence.startswith(sentence)
    assert result.differences[0].id.startswith(f"{change}-")


@pytest.mark.parametrize("name, change, sentence", WRONG, ids=[name for name, *_ in WRONG])
def test_faulty_script_fails_at_the_first_wrong_event(name: str, change: Change, sentence: str, pool: Pool) -> None:
    _require_fault(name, change, sentence, pool)


@pytest.mark.slow
@pytest.mark.parametrize("name, change, sentence", MORE_WRONG, ids=[name for name, *_ in MORE_WRONG])
def test_more_faulty_scripts_fail(name: str, change: Change, sentence: str, pool: Pool) -> None:
    _require_fault(name, change, sentence, pool)


@pytest.mark.parametrize("name", RIGHT)
def test_right_script_passes(name: str, pool: Pool) -> None:
    result = _judged(name, pool)
    assert (result.judgement, result.differences, result.notes) == (Judgement.PASS, (), ())
    assert result.calls > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE_RIGHT)
def test_more_right_scripts_pass(name: str, pool: Pool) -> None:
    assert _judged(name, pool).judgement is Judgement.PASS


def test_script_that_asks_whether_it_is_compiled_is_inconclusive(pool: Pool) -> None:
    result = _judged("asks_the_compiler", pool)
    assert result.judgement is Judgement.INCONCLUSIVE
    assert result.reason.startswith("the script asks whether it is being compiled")


def test_unsupported_script_is_rejected(pool: Pool) -> None:
    result = _judged("breaks_fullgraph", pool)
    assert result.judgement is Judgement.REJECTED
    assert result.reason.startswith("Unsupported")
