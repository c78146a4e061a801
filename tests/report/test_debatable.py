"""Bugs of which opinions differ come after the plain ones, and are not shown as the clearest."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from filled_store import add_bug
from rich.console import Console

from driftline.core.evidence import Element, Evidence, Fault, InputClass
from driftline.core.titles import KEY, TitleFacts
from driftline.core.verdict import Kind
from driftline.report.debate import SIGN_OF_ZERO, SUBNORMAL, TINY_ERROR
from driftline.report.gather import _rank, gather_store
from driftline.report.hunts import _counted, _show_bugs, _show_clearest
from driftline.report.view import BugView, ShortestForm
from driftline.store import Store


def bug(name: str, severity: int, *, debatable: bool) -> BugView:
    made: Any = SimpleNamespace(
        id=name, compiler="c", group="open", debatable=debatable, severity=severity, sightings=1, title=name,
        shortest=ShortestForm("x = 1", None), script="x = 1",
        mismatch=None, reason="wrong", replay=f"driftline replay {name}",
        failed_runs=(2, 2), others={}, causes=(), certain=True, spelled=("abs",),
    )  # fmt: skip
    return cast(BugView, made)


def test_debatable_bug_is_listed_last_and_never_the_clearest() -> None:
    bugs = [bug("opinion", 1, debatable=True), bug("plain", 5, debatable=False)]
    assert [one.id for one in sorted(bugs, key=_rank)] == ["plain", "opinion"]
    for shown, words in ((bugs, "plain"), (bugs[:1], "")):
        out = Console(file=io.StringIO())
        _show_clearest(out, shown)
        told = cast(io.StringIO, out.file).getvalue()
        assert words in told and "opinion" not in told
        assert bool(words) == ("The clearest one" in told)


def test_summary_of_a_hunt_counts_and_marks_debatable_bugs_apart() -> None:
    plain = SimpleNamespace(**{**vars(bug("plain", 1, debatable=False)), "status": "new", "debated": "", "like": None})
    opinion = SimpleNamespace(**{**vars(plain), "id": "opinion", "debatable": True, "debated": "no standard says it"})
    both = cast(list[BugView], [plain, opinion])
    assert _counted(both, 2).startswith("[bold]1 distinct bug[/], and 1 debatable one, in 1 compiler, each run again")
    assert _counted(both[:1], 1).startswith("[bold]1 distinct bug[/] in 1 compiler, each")
    assert _counted(both[1:], 1).startswith("1 debatable bug in 1 compiler, each")
    out = Console(file=io.StringIO(), width=150)
    _show_bugs(out, both)
    told = cast(io.StringIO, out.file).getvalue()
    assert told.count("debatable:") == 1 and "debatable: no standard says it" in told


@pytest.mark.parametrize(
    ("given", "fault", "debatable"),
    [
        (("0", "1e-45"), Fault.NAN_MADE, True),
        (("0", "2"), Fault.NAN_MADE, False),
        (("0", "NaN"), Fault.NAN_MADE, False),
        ((), Fault.SUBNORMAL, True),
        ((), Fault.NUMBER, False),
    ],
)
def test_bug_of_subnormal_numbers_is_debatable_for_every_compiler(
    tmp_path: Path, given: tuple[str, ...], fault: Fault, debatable: bool
) -> None:
    found = Evidence(output="y", elements=1, wrong=1, worst=(Element((0,), 0.0, 1.0),), faults=(fault,))
    facts = TitleFacts(("Div",), ("float32",), given=given)
    with Store.create(tmp_path) as store:
        add_bug(store, Kind.WRONG_NONFINITE, evidence=found, **{KEY: facts.to_json()})
        (view,) = gather_store(store).bugs
    assert view.debatable is debatable and view.debated == (SUBNORMAL if debatable else "")


@pytest.mark.parametrize(
    ("operators", "faults", "needs", "debatable"),
    [
        (("Add", "Div"), (Fault.INFINITY_TURNED,), (InputClass.ZERO,), True),
        (("Pow",), (Fault.INFINITY_TURNED,), (InputClass.ZERO,), False),
        (("Add", "Div"), (Fault.INFINITY_TURNED, Fault.NUMBER), (InputClass.ZERO,), False),
        (("Add", "Div"), (Fault.INFINITY_TURNED,), (), False),
    ],
)
def test_bug_that_rests_on_the_sign_of_a_zero_between_operators_is_debatable(
    tmp_path: Path,
    operators: tuple[str, ...],
    faults: tuple[Fault, ...],
    needs: tuple[InputClass, ...],
    debatable: bool,
) -> None:
    worst = (Element((0,), float("inf"), float("-inf")),)
    found = Evidence(output="y", elements=1, wrong=1, wrong_nonfinite=1, worst=worst, faults=faults, needs=needs)
    facts = TitleFacts(operators, ("float32",))
    with Store.create(tmp_path) as store:
        add_bug(store, Kind.WRONG_NONFINITE, evidence=found, **{KEY: facts.to_json()})
        (view,) = gather_store(store).bugs
    assert view.debatable is debatable and view.debated == (SIGN_OF_ZERO if debatable else "")


@pytest.mark.parametrize(("got", "debatable"), [(1.1755e-38, True), (1.2e-37, False), (-1e-38, False)])
def test_bug_with_an_error_below_the_smallest_normal_number_is_debatable(
    tmp_path: Path, got: float, debatable: bool
) -> None:
    worst = (Element((0,), 1.17549435e-38, got),)
    found = Evidence(output="y", dtype="float32", elements=1, wrong=1, worst=worst, faults=(Fault.NUMBER,))
    with Store.create(tmp_path) as store:
        add_bug(store, Kind.WRONG_VALUE, evidence=found, **{KEY: TitleFacts(("Tanh",), ("float32",)).to_json()})
        (view,) = gather_store(store).bugs
    assert view.debatable is debatable and view.debated == (TINY_ERROR if debatable else "")
