"""A compiler with a generator of its own is judged by what is promised of random numbers, not by eager's numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftline.campaign.check.session import check_program
from driftline.checking.checker import Checker, CheckOutcome
from driftline.checking.open import open_program
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.store import Store

PLUGIN = str(Path(__file__).with_name("careless_generators.py"))
OPTIONS = CheckOptions(plugins=(PLUGIN,))
TWO_MASKS = """
import torch


def program():
    def masks(x):
        return torch.nn.functional.dropout(x, 0.5), torch.nn.functional.dropout(x, 0.5)

    return masks, (torch.ones(16, 32),)


def without():
    return torch.sin, (torch.ones(4),)
"""


@pytest.fixture(autouse=True)
def plugin() -> None:
    load_plugins([PLUGIN])


def verdicts(checker: Checker, folder: Path, target: str, program: str = "program") -> dict[str, Verdict]:
    path = folder / "masks.py"
    path.write_text(TWO_MASKS)
    with Store.create(folder / "store") as store:
        opened = open_program(f"{path}:{program}", checker.pool, OPTIONS)
        result = check_program(checker, store, opened, targets=[Target.parse(target)], options=OPTIONS)
        for bug in result.bugs.values():  # what was kept shows again
            case = store.load_case(store.bug(bug.id).findings[0].case_id)
            again: CheckOutcome = checker.check(case)
            assert [row.verdict.kind for row in again.results] == [bug.fingerprint.kind]
        assert len(result.bugs) == sum(row.verdict.judgement is Judgement.FAIL for row in result.results)
    return {str(row.target): row.verdict for row in result.results}


def test_program_that_draws_is_also_checked_with_the_generator_of_the_compiler(
    checker: Checker, tmp_path: Path
) -> None:
    found = verdicts(checker, tmp_path, "sound-generator")
    assert [verdict.judgement for verdict in found.values()] == [Judgement.PASS, Judgement.PASS]
    assert "48 seeds" in found["sound-generator:own=true"].reason


def test_program_that_draws_nothing_has_no_second_row(checker: Checker, tmp_path: Path) -> None:
    assert list(verdicts(checker, tmp_path, "sound-generator", "without")) == ["sound-generator"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("merged-draws", "output 0: the correlation with output 1 is 1, "),
        ("seed-ignored", "returns other numbers for the same seed"),
    ],
)
def test_careless_generator_is_found_and_its_bug_replays(
    checker: Checker, tmp_path: Path, target: str, words: str
) -> None:
    found = verdicts(checker, tmp_path, target)
    assert found[target].judgement is Judgement.PASS, "with eager's numbers there is nothing to see"
    own = found[f"{target}:own=true"]
    assert (own.judgement, own.kind) == (Judgement.FAIL, Kind.WRONG_DRAWS)
    assert words in own.reason
