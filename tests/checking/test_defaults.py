"""What a check compares by default beside the outputs of the first call: another size, and the gradient."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from driftline.campaign.check.session import check_program, fingerprint
from driftline.checking.aspects import Aspect, Extent
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.checking.result import CheckResult
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Kind
from driftline.inputs.resized import one_more_row
from driftline.report.compared import compared_words
from driftline.report.results import check_json
from driftline.store import Store

PLUGIN = str(Path(__file__).with_name("forgetful_torch_compilers.py"))
OPTIONS = CheckOptions(plugins=(PLUGIN,))
PROGRAMS = """
import torch


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, -1.0, 0.5]))

    def forward(self, x):
        return torch.sin(x) * self.weight


class Counting(torch.nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def example(**settings):
    return (torch.tensor([[3.0, 1.0, 2.0], [1.5, -2.0, 0.25]], **settings),)


def trained():
    return Scaled(), example()


def evaluated():
    return Scaled().eval(), example()


def marked():
    return torch.sin, example(requires_grad=True)


def of_two_rows():
    return (lambda x: x.reshape(2, 3) * 2), example()


def rows_in_python():
    return (lambda x: (x * 2, x.shape[0], x.shape[0] / 2)), example()


def counting():
    return Counting(), example()


def without_gradient():
    return torch.no_grad()(torch.sin), example(requires_grad=True)


def changes_its_input():
    return (lambda x: x.mul_(2).sum()), example(requires_grad=True)
"""
LATER = (Aspect.OUTPUTS, Aspect.OTHER_VALUES, Aspect.FIRST_VALUES)


@pytest.fixture(autouse=True)
def plugin() -> None:
    load_plugins([PLUGIN])


def checked(
    checker: Checker, folder: Path, program: str, target: str, extent: Extent | None = None
) -> tuple[CheckResult, list[int]]:
    """The result, and how many samples the case has that was kept for each bug."""
    path = folder / "programs.py"
    path.write_text(PROGRAMS)
    with Store.create(folder / "store") as store:
        opened = open_program(f"{path}:{program}", checker.pool, OPTIONS)
        more = {"extent": extent} if extent else {}
        result = check_program(checker, store, opened, targets=[Target.parse(target)], options=OPTIONS, **more)
        kept = [len(store.load_case(store.bug(bug.id).findings[0].case_id).samples) for bug in result.bugs.values()]
    return result, kept


def test_a_fault_at_another_size_after_the_first_call_is_found(checker: Checker, tmp_path: Path) -> None:
    result, kept = checked(checker, tmp_path, "evaluated", "keeps-first-size")
    row = result.results[0]
    assert (row.verdict.judgement, row.verdict.kind) == (Judgement.FAIL, Kind.WRONG_VALUE)
    assert row.verdict.reason.startswith("when it is called again with batch 3 instead of 2: ")
    assert row.compared == (*LATER, Aspect.OTHER_SIZE)
    assert row.seen_in and "after another call" in fingerprint(row.seen_in.case, row).detail
    assert kept == [2], "the case that is replayed has both calls"
    assert [sample.origin for sample in row.seen_in.case.samples] == ["example", "example, batch 3 instead of 2"]


def test_a_fault_at_another_size_alone_is_kept_without_the_first_call(checker: Checker, tmp_path: Path) -> None:
    result, kept = checked(checker, tmp_path, "evaluated", "wrong-for-three-rows")
    assert result.results[0].verdict.reason.startswith("with batch 3 instead of 2: ")
    assert kept == [1]


@pytest.mark.parametrize("program", ["trained", "marked"])
def test_the_gradient_is_compared_where_the_program_asks_for_one(
    checker: Checker, tmp_path: Path, program: str
) -> None:
    result, kept = checked(checker, tmp_path, program, "wrong-gradient")
    row = result.results[0]
    assert (row.verdict.judgement, row.verdict.kind) == (Judgement.FAIL, Kind.WRONG_VALUE)
    assert row.verdict.reason.startswith("with gradients: the gradient of ")
    assert kept == [1] and row.seen_in and row.seen_in.case.options.grad
    assert row.first_execution.outputs[0].keys() == {"output"}, "what is compared with other targets has no gradient"


@pytest.mark.parametrize("program", ["evaluated", "without_gradient", "changes_its_input"])
def test_the_gradient_is_not_compared_where_there_is_none_to_ask_for(
    checker: Checker, tmp_path: Path, program: str
) -> None:
    result, _ = checked(checker, tmp_path, program, "wrong-gradient")
    row = result.results[0]
    assert row.verdict.judgement is Judgement.PASS and Aspect.GRADIENT not in row.compared


@pytest.mark.parametrize("target", ["keeps-first-size", "wrong-gradient"])
def test_one_call_without_gradient_compares_the_outputs_alone(checker: Checker, tmp_path: Path, target: str) -> None:
    result, _ = checked(checker, tmp_path, "trained", target, Extent(calls=1))
    assert result.results[0].verdict.judgement is Judgement.PASS
    assert result.results[0].compared == (Aspect.OUTPUTS,)
    assert compared_words(result.outcome) == ""


def test_a_sound_compiler_passes_and_the_report_says_what_was_compared(checker: Checker, tmp_path: Path) -> None:
    result, _ = checked(checker, tmp_path, "trained", "aot_eager")
    gradient = (Aspect.GRADIENT, Aspect.GRADIENT_OF_OTHER_VALUES)
    assert result.results[0].verdict.judgement is Judgement.PASS
    assert result.results[0].compared == (*LATER, Aspect.OTHER_SIZE, *gradient)
    assert "a call with another size, batch 3 instead of 2" in compared_words(result.outcome)
    body = check_json(result)
    assert body["other_size"] == "batch 3 instead of 2"
    assert body["results"][0]["compared"] == [str(aspect) for aspect in result.results[0].compared]


def test_a_program_that_takes_one_size_is_not_called_with_another(checker: Checker, tmp_path: Path) -> None:
    result, _ = checked(checker, tmp_path, "of_two_rows", "keeps-first-size")
    assert result.results[0].verdict.judgement is Judgement.PASS and result.results[0].compared == LATER
    assert result.outcome.other_size == ""


@pytest.mark.parametrize("program", ["rows_in_python", "counting"])
def test_sizes_and_state_in_python_are_no_fault_of_the_compiler(checker: Checker, tmp_path: Path, program: str) -> None:
    result, _ = checked(checker, tmp_path, program, "aot_eager")
    assert result.results[0].verdict.judgement is Judgement.PASS and not result.bugs


def test_another_size_has_a_row_more_wherever_the_batch_is() -> None:
    x, mask, table = np.float32([[1, 2], [3, 4]]), np.array([[True], [False]]), np.float32([[1, 2, 3]] * 5)
    (every, words), (first, one) = one_more_row({"x": x, "mask": mask, "table": table})
    assert [array.shape for array in every.values()] == [(3, 2), (3, 1), (5, 3)]
    assert every["x"][2].tolist() == [2.625, 3.5] and not every["mask"][2, 0]
    assert [array.shape for array in first.values()] == [(3, 2), (2, 1), (5, 3)]
    assert (words, one) == ("batch 3 instead of 2", "batch 3 instead of 2 in x")
    assert list(one_more_row({"x": np.float32(1)})) == []
    assert list(one_more_row({"x": np.zeros((0, 2), np.float32)})) == []
    offsets = next(one_more_row({"offsets": np.float32([0, 1, 2])}))[0]["offsets"]
    assert offsets.tolist() == [0, 1, 2, 2], "numbers in order stay in order"
