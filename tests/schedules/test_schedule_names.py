"""Names of failing schedules: what TVM prints of a function is no part of them; how it was compiled is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from driftline.core.evidence import Evidence
from driftline.core.verdict import Kind
from driftline.schedules.naming import FailureLike, bare, fingerprint, sentence
from driftline.schedules.requests import Performed
from driftline.schedules.target import is_unoptimised, unoptimised
from driftline.schedules.trace import LoopAt, ScheduleStep, Trace, read_trace

# As TVM 0.27 says them, with numbers and quoted names already left out.
_SEQUENCE = "Check failed: seq.size() != # (# vs. #) : A SeqStmt of length # is prohibited. Use the node "
_DEEP = "Check failed: (prim::ExprDeepEqual()(it->second, info)) is false: Trying to update var '?' with a different"
_REGION = "Check failed: (var.has_value()) is false: TensorRegion pattern match failed: "
_TWICE = "Check failed: (it == buffer_scope_depth_.end()) is false: {} has duplicate definitions"
_UNDEFINED = (
    "Check failed: undefined.size() == # (# vs. #) : In PrimFunc {} are used, but are not passed in as API args"
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_SEQUENCE + "for i, j_#_j_#_fused in T.grid(#):", _SEQUENCE + "for i in T.unroll(#):"),
        (
            _DEEP + " value: original=T.if_then_else(A[i#, r] <= Y_v#[i#], Y_v#[i#], J[i#, r])",
            _DEEP + " value: x, new=y",
        ),
        (_REGION + "v_i + v_p", _REGION + "I_#[v_i]"),
        (_REGION + "vi", _REGION + "v# * # + v#"),
        (_TWICE.format("A_global"), _TWICE.format("Y_rf")),
        (_UNDEFINED.format("main variables (i, vj, q_#)"), _UNDEFINED.format("func variables (v_i,)")),
    ],
)
def test_printed_code_names_and_numbers_are_no_part_of_a_message(one: str, other: str) -> None:
    assert bare(one) == bare(other) and one != other


def test_messages_that_differ_in_words_or_in_what_is_checked_stay_apart() -> None:
    messages = [
        _SEQUENCE + "for i in range(#):",
        _SEQUENCE.replace("A SeqStmt of length #", "An empty SeqStmt"),
        _DEEP,
        _REGION + "v_i",
        _TWICE.format("A"),
        _TWICE.format("A").replace("==", "!="),
        _UNDEFINED.format("main variables (i,)"),
        "Check failed: (in_bound_filling_pos.defined()) is false:",
        "Check failed: (p != nullptr) is false:",
        "Index # out of bounds #",
        "'key is not in Map'",
        "unordered_map::at",
    ]
    assert len({bare(message) for message in messages}) == len(messages)
    assert all(bare(message) for message in messages)  # an empty one would tell nothing


_STEP = ScheduleStep("blockize", ("Y",))
_FAILED = Performed(
    Trace("scale", {"n": 2, "m": 2}, (_STEP,)),
    "SCHEDULE",
    Kind.ERROR,
    Evidence(exception="InternalError", message=_SEQUENCE + "for i, j in T.grid(#):"),
)


def test_a_smaller_trace_may_print_other_loops() -> None:
    printed = replace(_FAILED.evidence, message=_SEQUENCE + "for j in range(#):")
    assert FailureLike.of(replace(_FAILED, evidence=printed)) == FailureLike.of(_FAILED)


def test_what_compiling_says_does_not_tell_which_primitive_was_wrong() -> None:
    assert FailureLike.of(_FAILED).telling
    assert not FailureLike.of(replace(_FAILED, stage="COMPILE")).telling
    assert not FailureLike.of(replace(_FAILED, stage="RUN", kind=Kind.WRONG_VALUE)).telling


def test_a_pass_and_missing_optimisations_are_part_of_the_name() -> None:
    plain = fingerprint(_FAILED)
    alone = replace(_FAILED, trace=_FAILED.trace.with_passes("tirx.UnrollLoop"))
    bare_llvm = replace(_FAILED, trace=replace(_FAILED.trace, target=json.dumps(unoptimised("llvm"))))
    assert fingerprint(alone).detail == f"{plain.detail} by pass tirx.UnrollLoop"
    assert FailureLike.of(alone) != FailureLike.of(_FAILED)
    assert "by the pass tirx.UnrollLoop" in sentence(alone)
    assert fingerprint(bare_llvm).detail == f"{plain.detail} at opt-level 0"
    assert "without LLVM's optimisations" in sentence(bare_llvm)
    assert not is_unoptimised("llvm") and not is_unoptimised('{"kind": "llvm", "opt-level": 2}')


def test_an_older_trace_has_the_same_bytes() -> None:
    trace = Trace("scale", {"n": 2}, (ScheduleStep("unroll", loops=(LoopAt("Y", 0),)),))
    assert "passes" not in trace.to_json() and read_trace(trace.with_passes().dump()).passes == ()
