"""Bugs that look like others say so; what only seems alike does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from filled_store import add_bug

from driftline.causes import Cause, Library, Witness
from driftline.core.evidence import Evidence
from driftline.core.verdict import Kind, Status
from driftline.report.formats import render
from driftline.report.gather import compare, gather
from driftline.report.kinship import in_order
from driftline.report.view import BugView
from driftline.store import Store

CAUSES = Library(
    tuple(
        Cause(
            f"openvino/{op}",
            f"{op} is wrong",
            "openvino",
            tuple(map(str, Kind)),
            Witness("", ""),
            operators=(frozenset({op}),),
        )
        for op in ("log2", "log1p")
    )
)


def explained(op: str) -> dict[str, object]:
    return {"sighting": {"operators": [op]}}


class Shelf:
    """A store, to which bugs go by their patterns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, pattern: str, kind: Kind = Kind.WRONG_VALUE, compiler: str = "openvino", **more: object) -> str:
        with Store.create(self.path) as store:
            return add_bug(store, kind, compiler=compiler, op="exp", pattern=pattern, **more).id  # type: ignore[arg-type]

    def bug(self, name: str) -> BugView:
        return next(bug for bug in gather(self.path, CAUSES).bugs if bug.id == name)

    def like(self, name: str) -> str:
        like = self.bug(name).like
        return like.bug if like else ""


def raised(message: str) -> Evidence:
    return Evidence(exception="RuntimeError", message=message, said=message)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "store")


def test_one_kernel_in_one_type(shelf: Shelf) -> None:
    one, other = shelf.put("log(float)", special=True), shelf.put("log10(select(float))", special=True)
    first, second = gather(shelf.path).bugs
    assert {first.id, second.id} == {one, other}
    assert first.like is None
    assert second.like and (second.like.bug, second.like.kernel, second.like.dtype) == (
        first.id,
        "a logarithm",
        "float32",
    )


@pytest.mark.parametrize(
    ("pattern", "kind", "compiler"),
    [
        ("log10(float16)", Kind.WRONG_VALUE, "openvino"),  # another type
        ("tanh(float)", Kind.WRONG_VALUE, "openvino"),  # another kernel
        ("log10(float)", Kind.WRONG_VALUE, "tvm"),
        ("log10(float)", Kind.ERROR, "openvino"),
        ("select(float)", Kind.WRONG_VALUE, "openvino"),
        ("log10(float16, int64)", Kind.WRONG_VALUE, "openvino"),  # an index beside it is no type that is computed with
    ],
)
def test_what_differs(shelf: Shelf, pattern: str, kind: Kind, compiler: str) -> None:
    names = shelf.put("log(select(float, int64))"), shelf.put(pattern, kind, compiler)
    assert not any(shelf.like(name) for name in names)


def test_a_lost_nan_is_like_a_wrong_value_and_like_one_of_another_width(shelf: Shelf) -> None:
    value = shelf.put("conv1d(float16)")
    assert shelf.like(shelf.put("sqrt(conv2d(float16))", Kind.WRONG_NONFINITE)) == value
    lost = {shelf.put(f"tanh({dtype})", Kind.WRONG_NONFINITE) for dtype in ("float16", "float8_e5m2")}
    (like,) = (bug.like for name in lost if (bug := shelf.bug(name)).like)
    assert like.bug in lost
    assert like.dtype == "floats of several widths"


def test_errors_are_alike_by_their_words_too(shelf: Shelf) -> None:
    message = "[ConvertConvolution] END: node: Convolution {} CALLBACK HAS THROWN: no layout is known"
    one = shelf.put("conv1d(float)", Kind.ERROR, evidence=raised(message.format("output")))
    two = shelf.put("conv2d(float)", Kind.ERROR, evidence=raised(message.format("w")))
    other = shelf.put("conv3d(float)", Kind.ERROR, evidence=raised("Supported executor of another kind"))
    assert {shelf.like(one), shelf.like(two)} & {one, two}
    assert not shelf.like(other)


def test_those_with_a_known_cause_lead_and_stay_apart(shelf: Shelf) -> None:
    named = shelf.put("log2(float)", Kind.WRONG_NONFINITE, **explained("log2"))
    also_named = shelf.put("log1p(float)", Kind.WRONG_NONFINITE, **explained("log1p"))
    assert shelf.like(shelf.put("log(float)")) in (named, also_named)
    assert not shelf.like(named)
    assert not shelf.like(also_named)


def test_a_fixed_bug_is_like_nothing(shelf: Shelf) -> None:
    fixed = shelf.put("log(float)", status=Status.FIXED)
    assert not shelf.like(shelf.put("log10(float)"))
    assert not shelf.like(fixed)


def test_a_large_program_is_like_nothing(shelf: Shelf) -> None:
    shelf.put("log(float)")
    assert not shelf.like(shelf.put("exp+log+mm+sort+tanh(float)"))


def test_like_bugs_stand_together_and_every_format_says_so(shelf: Shelf) -> None:
    shelf.put("log(float)")
    for pattern in ("tanh(float)", "erf(float)", "floor(float)"):
        shelf.put(pattern)
    shelf.put("log10(float)")
    view = gather(shelf.path)
    places = [number for number, bug in enumerate(view.bugs) if "log" in bug.operators[0]]
    assert places[1] == places[0] + 1
    leader, follower = (view.bugs[place] for place in places)
    assert "; 1 of them looks like another one" in view.verdict
    assert f'(like <a class="mono" href="#{leader.id}">' in render(view, "html")
    assert f"Looks like `{leader.id}`: a logarithm of float32 goes wrong in both" in render(view, "md")
    assert f",{leader.id}," in next(line for line in render(view, "csv").splitlines() if line.startswith(follower.id))


def test_a_comparison_has_no_dead_links(tmp_path: Path) -> None:
    before, after = Shelf(tmp_path / "before"), Shelf(tmp_path / "after")
    before.put("erf(float)")
    after.put("log2(float)", status=Status.KNOWN, **explained("log2"))
    old = before.put("log(float)")
    assert after.put("log(float)") == old
    new = after.put("log10(float)")
    assert after.like(new) and after.like(old), "in its own report"
    comparison = compare(before.path, after.path, CAUSES)
    shown = [bug.like for bug in (*comparison.new, *comparison.still)]
    assert shown == [None, None], "a known bug is not shown among what changed"


def test_bugs_of_one_cause_stand_together_within_their_severity(shelf: Shelf) -> None:
    """The one that is seen most leads; another one without a cause does not come between."""
    mine = [shelf.put(f"log2({dtype})", **explained("log2")) for dtype in ("float32", "float64")]
    other = shelf.put("erf(float32)")
    dead = shelf.put("log2(float16)", Kind.CRASH, **explained("log2"))
    bugs = gather(shelf.path, CAUSES).bugs
    names = [bug.id for bug in bugs]
    assert [bug.severity for bug in bugs] == sorted(bug.severity for bug in bugs)
    assert names[-1] == dead and sorted(names[:-1]) == sorted([*mine, other])
    assert abs(names.index(mine[0]) - names.index(mine[1])) == 1
    apart = [next(bug for bug in bugs if bug.id == name) for name in (mine[0], other, mine[1])]
    assert [bug.id for bug in in_order(apart)] == [*mine, other]
