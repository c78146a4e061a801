"""Screening judges as `check` does, and one program's crash is not the others' trouble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from driftline.checking.batch import Screening, case_of
from driftline.checking.batch_requests import PreparedProgram, ProgramRequest, ProgramVerdict
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.execute.pool import Pool, PoolInterrupted
from driftline.execute.requests import Ran

PLUGIN = str(Path(__file__).parents[1] / "campaign" / "wrong_abs.py")
WRONG = Target("wrong-abs")


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    load_plugins([PLUGIN])
    with Pool() as pool:
        yield pool


def requests(*arms: str) -> list[ProgramRequest]:
    """Each operator alone, in its first dtype."""
    return [ProgramRequest("graph", arm, 0, ("random", "specials"), seed=arm) for arm in arms]


def test_a_crash_costs_one_program(pool: Pool) -> None:
    with Screening(pool, "onnx", plugins=[PLUGIN]) as screening:
        results = screening.screen(requests("exp", "sign", "abs", "add", "sign", "neg"), WRONG)
    assert [(r.judgement, r.kind) for r in results] == [
        ("pass", ""),
        ("fail", "crash"),
        ("fail", "wrong-value"),
        ("pass", ""),
        ("fail", "crash"),
        ("pass", ""),
    ]


class Interrupted(Screening):
    """The pool is interrupted when the second piece is to run."""

    def _run_and_judge(
        self, programs: Mapping[int, PreparedProgram], target: Target
    ) -> tuple[dict[int, Ran], dict[int, ProgramVerdict]]:
        if 0 not in programs:
            raise PoolInterrupted("the job was interrupted")
        return super()._run_and_judge(programs, target)


def test_cut_short_it_gives_what_was_judged(pool: Pool) -> None:
    with Interrupted(pool, "onnx", plugins=[PLUGIN], shards=3) as screening:
        results = screening.screen(requests("abs", "exp", "sign"), WRONG, cut=True)
        assert [(r.request.arm, r.judgement) for r in results] == [("abs", "fail")]
        with pytest.raises(PoolInterrupted):
            screening.screen(requests("abs", "exp", "sign"), WRONG)


def test_check_agrees(pool: Pool) -> None:
    with Screening(pool, "onnx", plugins=[PLUGIN]) as screening:
        results = screening.screen(requests("abs", "exp", "sqrt"), WRONG)
        for result in results:
            assert result.made
            case = case_of(result.made, WRONG, CheckOptions(plugins=(PLUGIN,)))
            verdict = Checker(pool).check(case).results[0].verdict
            assert str(verdict.judgement) == result.judgement
            assert str(verdict.kind or "") == result.kind


def test_those_that_are_compiled_together_stay_together() -> None:
    companies = ["plain"] * 5 + ["gradients"] * 2
    screening = Screening(cast(Pool, None), "torch", shards=2)
    program = Program("source", "torch", "", Path(), "")
    made = PreparedProgram(program, "", "", (), grad=False, company="")
    pieces = screening._pieces({number: replace(made, company=name) for number, name in enumerate(companies)}, 3)
    assert [sorted(piece) for piece in pieces] == [[5, 6], [0, 1], [2, 3, 4]], "what takes longest comes first"


def test_shards_change_nothing(pool: Pool) -> None:
    asked = requests("exp", "sign", "abs", "add", "tanh", "neg")
    with Screening(pool, "onnx", plugins=[PLUGIN]) as one, Screening(pool, "onnx", plugins=[PLUGIN], shards=2) as two:
        whole, pieces = one.screen(asked, WRONG), two.screen(asked, WRONG)
    assert [(r.judgement, r.kind, r.request.arm) for r in whole] == [
        (r.judgement, r.kind, r.request.arm) for r in pieces
    ]


def test_programs_compiled_together_get_their_own_verdicts(pool: Pool) -> None:
    with Screening(pool, "torch") as screening:
        results = screening.screen(requests("exp", "add", "relu", "sum", "softmax"), Target("inductor"))
    assert [result.judgement for result in results] == ["pass"] * 5


class Counting(Pool):
    """Counts the tasks that it runs, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: Counter[str] = Counter()

    def run(self, kind, task, request, **told):
        self.ran[task.name.rpartition(":")[2]] += 1
        return super().run(kind, task, request, **told)


def test_programs_with_options_of_their_own_share_one_process() -> None:
    target = Target("inductor")
    bug = (("inject_relu_bug", "accuracy"),)
    with Counting() as pool, Screening(pool, "torch") as screening:
        asked = requests("relu", "relu", "exp", "relu")
        made = screening.prepared(asked, target)
        assert all(isinstance(one, PreparedProgram) for one in made)
        made[1:3] = [replace(cast(PreparedProgram, one), options=bug) for one in made[1:3]]
        results = screening.screen(asked, target, made=made)
    assert [result.judgement for result in results] == ["pass", "fail", "pass", "pass"]
    assert pool.ran == {"prepare": 1, "run_many": 1, "judge_many": 1}


def test_programs_with_other_options_are_not_compiled_together() -> None:
    screening = Screening(cast(Pool, None), "torch", shards=2)
    made = PreparedProgram(Program("source", "torch", "", Path(), ""), "", "", (), grad=False, company="plain")
    frozen = replace(made, options=(("freezing", "true"),))
    (group,) = screening._by_process({0: made, 1: frozen, 2: made, 3: frozen}, Target("inductor"))
    assert [sorted(piece) for piece in screening._pieces(group, 10)] == [[0, 2], [1, 3]]


def test_options_that_a_compiler_reads_at_its_start_get_a_process_of_their_own() -> None:
    screening = Screening(cast(Pool, None), "onnx")
    made = PreparedProgram(Program("onnx", "onnx", "", Path(), ""), "", "", (), grad=False, company="plain")
    other = replace(made, options=(("isa", "avx2"),))
    groups = screening._by_process({0: made, 1: other, 2: made}, Target("openvino"))
    assert [sorted(group) for group in groups] == [[0, 2], [1]]


def test_nothing_to_make_is_no_error(pool: Pool) -> None:
    with Screening(pool, "onnx") as screening:
        (result,) = screening.screen(requests("add_"), Target("onnxruntime"))
    assert result.judgement == "nothing"
