"""The bugs we know are seen, and nothing is seen where they are fixed: the examples of causes, in `examples/bugs`.

By default the checks that take seconds: installed compilers without TensorFlow and JAX, and of TorchInductor, whose
every compilation takes long, those that fail.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from driftline.causes import builtin
from driftline.checking.checker import Checker
from driftline.core.target import Target
from driftline.execute.pool import Pool

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import known_bugs  # noqa: E402

QUICK = ("onnxruntime", "openvino", "tvm")


def _is_quick(check: known_bugs.Check) -> bool:
    target = Target.parse(check.target)
    if target.version or target.device != "cpu":
        return False
    return target.backend in QUICK or (target.backend == "inductor" and check.fails)


def _checks() -> list[Any]:
    return [
        pytest.param(check, id=f"{check.case}-{check.target}", marks=() if _is_quick(check) else pytest.mark.slow)
        for check in known_bugs.catalogue()
    ]


@pytest.mark.parametrize("check", _checks())
def test_the_verdict_is_the_one_that_the_cause_tells(check: known_bugs.Check, pool: Pool, checker: Checker) -> None:
    row = known_bugs.run_check(check, pool, checker)
    if row.skipped:
        pytest.skip(row.reason)
    assert row.as_expected, f"{row.got} {row.kind}, not {row.expected}: {row.reason}"


def test_every_example_is_told_by_one_cause_and_says_where_it_is_reported() -> None:
    told = {cause.example: cause for cause in builtin() if cause.example}
    assert sorted(cause.example for cause in builtin() if cause.example) == sorted(
        path.name for path in known_bugs.BUGS.glob("*.py")
    )
    for file, cause in told.items():
        assert cause.fails_on or cause.passes_on, file
        assert cause.reported in (known_bugs.BUGS / file).read_text(), f"{file} must say where the bug is reported"


def test_the_table_of_the_examples_is_made_of_the_causes() -> None:
    page = (ROOT / "examples" / "README.md").read_text()
    assert known_bugs.table() in page, "python benchmarks/known_bugs.py --table prints it"
