"""The bugs we know are seen, and nothing is seen where they are fixed: the catalogue of `examples/bugs`.

By default the checks that take seconds: installed compilers without TensorFlow and JAX, and of TorchInductor, whose
every compilation takes long, those that fail.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from driftline.checking.checker import Checker
from driftline.core.target import Target
from driftline.core.verdict import Kind
from driftline.execute.pool import Pool

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import known_bugs  # noqa: E402

CATALOGUE: list[dict[str, Any]] = json.loads((known_bugs.BUGS / "catalogue.json").read_text())
QUICK = ("onnxruntime", "openvino", "tvm")


def _is_quick(check: dict[str, Any]) -> bool:
    target = Target.parse(check["target"])
    if target.version or target.device != "cpu":
        return False
    return target.backend in QUICK or (target.backend == "inductor" and check["expect"] == "fail")


def _checks() -> list[Any]:
    return [
        pytest.param(
            entry["file"],
            check,
            id=f"{Path(entry['file']).stem}-{check['target']}",
            marks=() if _is_quick(check) else pytest.mark.slow,
        )
        for entry in CATALOGUE
        for check in entry["checks"]
    ]


@pytest.mark.parametrize(("file", "check"), _checks())
def test_the_verdict_is_the_one_in_the_catalogue(
    file: str, check: dict[str, Any], pool: Pool, checker: Checker
) -> None:
    (row,) = known_bugs.run_entry(file, [check], pool, checker)
    if row.skipped:
        pytest.skip(row.reason)
    assert f"{row.got} {row.kind}".strip() == row.expected, row.reason


def test_every_bug_file_is_in_the_catalogue() -> None:
    assert sorted(entry["file"] for entry in CATALOGUE) == sorted(path.name for path in known_bugs.BUGS.glob("*.py"))


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry["file"])
def test_a_catalogue_entry_is_complete(entry: dict[str, Any]) -> None:
    assert entry["summary"] and entry["checks"]
    assert entry["source"] in (known_bugs.BUGS / entry["file"]).read_text(), (
        "the file must say where the bug is reported"
    )
    for check in entry["checks"]:
        Target.parse(check["target"])
        if check["expect"] == "fail":
            Kind(check["kind"])
        else:
            assert check["expect"] == "pass" and "kind" not in check
