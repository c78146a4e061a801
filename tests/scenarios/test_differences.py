"""Differences between recordings, without executing anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from driftline.scenarios.compare import Stable, compare_event, far_apart, printed_difference
from driftline.scenarios.difference import Change, Difference, moment, spoken
from driftline.scenarios.recording import (
    CALL,
    CONTENTS,
    Fact,
    Raised,
    ScriptEvent,
    ScriptRecording,
    TensorSeen,
    read_recording,
)
from driftline.scenarios.recording import write_event as line_of
from driftline.scenarios.script import UserScript


def _compared(eager: ScriptEvent, compiled: ScriptEvent, folder: Path = Path()) -> list[Difference]:
    one, other = ScriptRecording(folder, (eager,)), ScriptRecording(folder, (compiled,))
    return list(compare_event(one, eager, other, compiled, Stable(eager, eager, eager), one).found)


def _event(**facts: Fact) -> ScriptEvent:
    return ScriptEvent(0, CALL, "step", facts)


def test_id_does_not_depend_on_what_is_said() -> None:
    one = Difference(Change.SIZE, 1, CALL, "after the first call of f", "self.history", "2 elements", "1 element")
    assert replace(one, when="then", expected="two", got="one").id == one.id
    assert replace(one, path="self.other").id != one.id


def test_size_of_a_list_is_told() -> None:
    (found,) = _compared(_event(state=Fact("list", size=2)), _event(state=Fact("list", size=1)))
    assert found.sentence == "after the first call of step, state has 1 element, eager has 2"


def test_parts_of_what_differs_are_not_told_again() -> None:
    eager = _event(state=Fact("list", size=1), **{"state[0]": Fact("1")})
    (found,) = _compared(eager, _event(state=Fact("list", size=0)))
    assert found.change is Change.SIZE


@pytest.mark.parametrize(
    "changed, change",
    [
        ({"dtype": "float64"}, Change.DTYPE),
        ({"shape": (3,)}, Change.SHAPE),
        ({"requires_grad": True}, Change.REQUIRES_GRAD),
    ],
)
def test_property_of_a_tensor_is_told(changed: dict[str, object], change: Change) -> None:
    seen = TensorSeen("float32", (2,))
    (found,) = _compared(_event(output=Fact(tensor=seen)), _event(output=Fact(tensor=replace(seen, **changed))))
    assert found.change is change


def test_fact_that_rounding_moves_is_not_compared_exactly() -> None:
    eager, compiled = _event(found=Fact("True")), _event(found=Fact("False"))
    rounded = Stable(eager, eager, compiled)
    recording = ScriptRecording(Path(), (eager,))
    assert not compare_event(recording, eager, ScriptRecording(Path(), (compiled,)), compiled, rounded, recording).found


def test_error_of_an_operator_may_be_another_one() -> None:
    raised = Raised("IndexError", ("IndexError", "LookupError", "Exception"))
    other = Raised("RuntimeError", ("RuntimeError", "Exception"))
    eager, compiled = replace(_event(), raised=raised), replace(_event(), raised=other)
    assert not _compared(eager, compiled)
    (found,) = _compared(replace(eager, raised=replace(raised, by_script=True)), compiled)
    assert found.change is Change.OTHER_ERROR


def test_numbers_within_rounding_or_its_movement_are_close() -> None:
    one = np.array([1.0, -2.0, np.nan], np.float32)
    assert not far_apart(one, one * np.float32(1 + 2e-7), None)
    assert far_apart(one, one * np.float32(1.001), None)
    assert not far_apart(one, one * np.float32(1.001), one * np.float32(1.002))
    assert far_apart(one, np.array([1.0, -2.0, 0.0], np.float32), None)


def test_printed_words_are_compared_and_numbers_are_not() -> None:
    assert printed_difference("loss 0.25\n", "loss 0.25\n", "loss 0.75\n") is None
    assert printed_difference("True\n", "True\n", "False\n") == ("'True'", "'False'")
    assert printed_difference("at 3 s\n", "at 4 s\n", "no\n") is None


def test_path_is_spoken_as_the_user_writes_it() -> None:
    assert [spoken("output[1]"), spoken("self.history"), spoken("input x")] == ["output 1", "`self.history`", "input x"]


def test_moment_counts_calls_of_the_same_name() -> None:
    first, second = _event(), replace(_event(), number=1)
    assert moment(second, (first,)) == "after the second call of step"


def test_unfinished_line_of_a_dead_process_is_dropped(tmp_path: Path) -> None:
    event = _event(output=Fact(tensor=TensorSeen("float32", (1,), at=0)))
    (tmp_path / "events.jsonl").write_text(line_of(event) + line_of(event)[:-9])
    (tmp_path / CONTENTS).write_bytes(np.array([2.5], np.float32).tobytes())
    recording = read_recording(tmp_path)
    assert recording.events == (event,)
    assert recording.content(recording.events[0].facts["output"].tensor).tolist() == [2.5]


def test_backend_is_read_off_the_script() -> None:
    assert UserScript(Path("a.py"), "torch.compile(f)").may_use_inductor
    assert not UserScript(Path("a.py"), "torch.compile(f, backend='aot_eager')").may_use_inductor
