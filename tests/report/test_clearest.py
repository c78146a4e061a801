"""The bug that is shown in full is the one that a stranger reads first and nobody disputes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from filled_store import fill

from driftline.core.severity import ON_SPECIAL_VALUES
from driftline.report.clearest import clearest
from driftline.report.gather import gather
from driftline.report.view import KNOWN, BugCause, BugView


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> BugView:
    """A confirmed bug of one operator with a short script and small numbers."""
    found = gather(fill(tmp_path_factory.mktemp("clear") / "store", hunts=False)).bugs[0]
    return replace(
        found, id="plain", title="dropout → add_: -3.1 where -6.2 is right", group="open", severity=2, certain=True,
        spelled=("add_",), script="import torch\nprint(1)\n", failed_runs=(2, 2), causes=(), others={},
    )  # fmt: skip


CAUSE = BugCause("c/d", "It is debatable", "", "the standard says nothing", False)
WORSE = [
    {"title": "Mul of int64: 0 where 4294967296 is right", "severity": 0},
    {"title": "exp(NaN) returns inf", "severity": 0},
    {"title": "Tanh: 1.1755e-38 where 1.17549e-38 is right", "severity": 0},
    {"title": "MaxPool loses an infinity: 3 where 4 is right", "severity": 0},
    {"causes": (CAUSE,), "severity": 0},
    {"others": {"iree": "inconclusive: differs only where the specification leaves it open"}, "severity": 0},
    {"others": {"iree": "fail: wrong-value"}, "severity": 0},
    {"group": KNOWN, "severity": 0},
    {"failed_runs": (1, 4), "severity": 0},
    {"certain": False, "severity": 0},
    {"severity": 6},
    {"severity": ON_SPECIAL_VALUES},
    {"script": ""},
    {"script": "x\n" * 60},
    {"spelled": ("conv2d", "relu", "add")},
    {"title": "dropout → add_: -3.14159 where -6.28319 is right"},
]


@pytest.mark.parametrize("change", WORSE, ids=lambda change: "-".join(map(str, change)))
def test_the_plain_bug_is_clearer(plain: BugView, change: dict[str, object]) -> None:
    worse = replace(plain, id="a", **change)  # type: ignore[arg-type]
    assert clearest([worse, plain]) is plain
    assert clearest([plain, worse]) is plain


def test_a_bug_that_another_compiler_gets_right_is_not_debatable(plain: BugView) -> None:
    seen = replace(plain, id="a", severity=0, others={"iree": "pass: equal", "tvm": "fail: wrong-value"})
    assert clearest([plain, seen]) is seen


def test_without_bugs_there_is_no_clearest_one() -> None:
    assert clearest([]) is None


def test_where_all_have_special_numbers_one_is_shown_still(plain: BugView, tmp_path: Path) -> None:
    special = replace(plain, title="exp(NaN) returns inf")
    assert clearest([special]) is special
