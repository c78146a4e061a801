"""`check --pairwise`: distances and sides, on results made by hand and on real compilers."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from rich.console import Console

from driftline.api import CheckRun
from driftline.campaign.check.across import across_isa, require_families
from driftline.campaign.check.settings import CheckSettings
from driftline.checking.checker import Checker, CheckOutcome, Skipped, TargetResult
from driftline.checking.pairwise import PairDistance, Pairwise, pairwise
from driftline.cli import run
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.processor import ARM, Processor
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement, Verdict
from driftline.oracle.judge import Reference, ReferenceSample
from driftline.report.pairwise import pairwise_view
from driftline.report.pairwise_table import show_pairwise
from driftline.store import Store


def outcome_of(expected: Sequence[Arrays], **rows: tuple[str, Sequence[Arrays]]) -> CheckOutcome:
    """A check whose targets returned this; of each its judgement and its results."""
    program = Program("onnx", "onnx", "", Path("model.onnx"), "model.onnx")
    targets = tuple(Target(name) for name in rows)
    case = Case(program, tuple(Inputs({}, "example") for _ in expected), targets, CheckOptions())
    results = tuple(
        TargetResult(
            Target(name),
            Execution(name, Outcome.OK if outputs else Outcome.ERROR, Stage.RUN, tuple(outputs)),
            Verdict(Judgement(judgement), "said by hand"),
        )
        for name, (judgement, outputs) in rows.items()
    )
    reference = Reference(tuple(ReferenceSample(native=dict(sample)) for sample in expected))
    return CheckOutcome(case, reference, results, (Skipped(Target("absent"), "not installed"),))


def pair_of(found: Pairwise, one: str, other: str) -> PairDistance:
    return next(pair for pair in found.pairs if {pair.one, pair.other} == {one, other})


def test_who_sides_with_whom() -> None:
    right = np.array([1.0, 2.0, 3.0], np.float32)
    rounded = np.nextafter(right, np.float32(9))
    wrong = np.array([1.0, 2.0, 4.0], np.float32)
    found = pairwise(
        outcome_of(
            [{"y": right}],
            exact=("pass", [{"y": right.copy()}]),
            near=("pass", [{"y": rounded}]),
            off=("fail", [{"y": wrong}]),
            also_off=("fail", [{"y": np.nextafter(wrong, np.float32(9))}]),
            broken=("fail", []),
        )
    )
    assert found.members == ("reference", "exact", "near", "off", "also_off")
    assert found.groups == (("reference", "exact", "near"), ("off", "also_off"))
    assert found.same_bits == (("reference", "exact"), ("near",), ("off",), ("also_off",))
    assert [name for name, _ in found.missing] == ["broken", "absent"]
    far = pair_of(found, "reference", "off")
    assert (far.absolute, far.relative, far.differing, far.where) == (1.0, 0.25, 1, "y[2]")
    near = pair_of(found, "exact", "near")
    assert (near.ulp, near.differing, near.within_rounding) == (1.0, 3, True)
    told = pairwise_view(found.to_json()).sentences
    assert "Side 2, within rounding of each other: off, also_off." in told
    assert any("reference: 1 of 3 elements differ; at most 1e0, relative 2e-1" in line for line in told)


def test_a_failure_within_the_plain_limit_is_still_not_on_the_side_of_the_reference() -> None:
    """A drift of one rounding is a failure where the oracle says so: verdicts are not overruled here."""
    right = np.ones(4, np.float32)
    found = pairwise(outcome_of([{"y": right}], drifts=("fail", [{"y": np.nextafter(right, np.float32(2))}])))
    assert found.groups == (("reference",), ("drifts",))


@pytest.mark.parametrize(
    ("one", "other", "differing", "nonfinite", "absolute", "ulp"),
    [
        (np.array([np.nan, 1.0], np.float32), np.array([np.nan, 1.0], np.float32), 0, 0, 0.0, 0.0),
        (np.array([np.nan, 1.0], np.float32), np.array([0.0, 1.0], np.float32), 1, 1, 0.0, 0.0),
        (np.array([np.inf, -np.inf]), np.array([np.inf, np.inf]), 1, 1, 0.0, 0.0),
        (np.array([0.0]), np.array([-0.0]), 1, 0, 0.0, 0.0),
        (np.array([2**63 - 1]), np.array([-(2**63)]), 1, 0, float(2**64 - 1), None),
        (np.array([True, False]), np.array([True, True]), 1, 0, 1.0, None),
        (np.array([1 + 1j], np.complex64), np.array([1 + 4j], np.complex64), 1, 0, 3.0, None),
        (np.array([1.0], ml_dtypes.bfloat16), np.array([1.0078125], ml_dtypes.bfloat16), 1, 0, 0.0078125, 1.0),
        (np.float64(2.0).reshape(()), np.float64(3.0).reshape(()), 1, 0, 1.0, float(2**51)),
        (np.zeros((0, 3)), np.zeros((0, 3)), 0, 0, 0.0, 0.0),
    ],
)  # fmt: skip
def test_every_sort_of_number(
    one: Any, other: Any, differing: int, nonfinite: int, absolute: float, ulp: float | None
) -> None:
    (pair,) = pairwise(outcome_of([{"y": one}], other=("inconclusive", [{"y": other}]))).pairs
    assert (pair.differing, pair.nonfinite, pair.absolute, pair.ulp) == (differing, nonfinite, absolute, ulp)
    assert pair.bitwise == (differing == 0)
    assert json.dumps(pairwise_view({**empty(), "pairs": [pair.to_json()]}).measures[0].rows[0][1].text)


def empty() -> dict[str, Any]:
    groups: dict[str, Any] = {"bitwise": [], "within_rounding": []}
    return {"title": "p", "members": ["reference", "other"], "pairs": [], "missing": [], "groups": groups}


def test_outputs_that_do_not_fit_each_other_are_named() -> None:
    y = np.ones(3, np.float32)
    found = pairwise(
        outcome_of(
            [{"y": y, "z": y}, {"y": y, "z": y}],
            renamed=("pass", [{"output_0": y, "output_1": y}] * 2),
            wide=("fail", [{"y": y.astype(np.float64), "z": y}] * 2),
            lacking=("fail", [{"y": y}] * 2),
        )
    )
    assert pair_of(found, "reference", "renamed").bitwise
    assert pair_of(found, "reference", "wide").incomparable == "y is float32[3] against float64[3]"
    assert pair_of(found, "reference", "lacking").incomparable == "only one of them returns z"
    assert found.groups == (("reference", "renamed"), ("wide",), ("lacking",))


def test_large_results_are_compared_in_little_memory() -> None:
    large = np.zeros(8_000_000, np.float32)
    other = large.copy()
    other[7_000_000] = 1.0
    made = outcome_of([{"y": large}], other=("fail", [{"y": other}]))
    tracemalloc.start()
    (pair,) = pairwise(made).pairs
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (pair.where, pair.differing) == ("y[7000000]", 1)
    assert peak < 0.75 * large.nbytes  # a copy in float64 would be twice as large as the array


TORCH = """\
import torch


def make():
    return lambda x, n: {"a": torch.relu(x), "n": n + 1}, (torch.tensor([1.0, -2.0, 3.0]), torch.arange(3))
"""
JAX = """\
import jax.numpy as jnp


def make():
    return lambda x: (jnp.sin(x), x > 0), (jnp.arange(4.0),)
"""


def test_a_compiler_that_is_wrong_on_one_instruction_set_stands_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`planted-by-width` is wrong in its wide code only; eager cannot be told which instructions to use."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(TORCH)
    Path("by_width.py").write_text(BY_WIDTH)
    command = "check net.py:make --targets planted-by-width,eager --across isa --pairwise --out page.html"
    assert run([*command.split(), "--plugin", "by_width.py", "--json", "--store", "s"]) == 1
    told = json.loads(capfd.readouterr().out)
    assert {row["target"]: row["verdict"] for row in told["results"]} == {
        "planted-by-width": "pass", "planted-by-width:width=8": "pass", WIDE: "fail",
    }  # fmt: skip
    (matrix,) = told["across"]
    sides = [["reference", "planted-by-width", "planted-by-width:width=8"], [WIDE]]
    assert matrix["groups"] == {"bitwise": sides, "within_rounding": sides} == told["pairwise"]["groups"]
    assert any("cannot be told" in note and "eager" in note for note in told["notes"])
    assert "Side 2" in Path("page.html").read_text()
    assert run("report --store s --out report.html".split()) == 0
    assert "All targets against each other" in Path("report.html").read_text()
    for width, shown in ((100, "1  reference, and 2 with the same bits"), (24, f"{WIDE} against reference: ")):
        screen = Console(file=StringIO(), width=width)
        show_pairwise(screen, matrix)
        said = screen.file.getvalue()  # type: ignore[attr-defined]
        assert shown in said and f"{WIDE} (alone)" in said


def test_mistakes_about_instruction_sets_are_explained(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DriftlineError, match="try inductor, tvm or iree"):
        require_families([Target("eager")])
    assert run("check net.py:make --targets eager --across ista".split()) == 2
    assert "Did you mean 'isa'?" in capfd.readouterr().err


def test_what_a_target_sets_itself_stays() -> None:
    families, without = across_isa([Target.parse("tvm:mcpu=generic"), Target.parse("tvm:opt=0")], Processor(ARM))
    assert [str(member) for member in families[0].members] == [
        "tvm:opt=0", "tvm:opt=0:mcpu=generic", "tvm:opt=0:mcpu=native",
    ]  # fmt: skip
    assert without == [Target.parse("tvm:mcpu=generic")]


def test_jax_programs_have_a_matrix(checker: Checker, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(JAX)
    with Store.create(tmp_path / "s") as store:
        program = f"{tmp_path}/net.py:make"
        result = CheckRun(checker, store, CheckSettings(targets=["xla", "xla:jit=off"], samples=2)).check(program)
    found = pairwise(result.outcome)
    assert found.members == ("reference", "xla", "xla:jit=off") and len(found.pairs) == 3
    assert not any(pair.incomparable for pair in found.pairs)


WIDE = "planted-by-width:width=16"
BY_WIDTH = """\
from driftline import Option, register_backend
from driftline.backends.eager import Eager


@register_backend
class ByWidth(Eager):
    name = "planted-by-width"
    reference = False
    options = {"width": Option("of its vectors", ("8", "16"))}

    def isa_variants(self, processor):
        return [{"width": "8"}, {"width": "16"}]

    def compile(self, program, options):
        honest = super().compile(program, options)
        if options.get("width") != "16":
            return honest
        return lambda arrays: {name: array * 2 for name, array in honest(arrays).items()}
"""


def test_matrices_from_python(checker: Checker, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[3] x) => (float[3] y) { y = Add(x, x) }'
    )
    with Store.create(tmp_path / "store") as store:
        result = CheckRun(
            checker, store, CheckSettings(targets=["onnxruntime,onnx-reference"], inputs="random", pairwise=True)
        ).check(model)
        assert result.pairwise and result.pairwise.members == ("reference", "onnxruntime", "onnx-reference")
        assert not result.across
        with pytest.raises(DriftlineError, match="Did you mean 'isa'"):
            CheckRun(checker, store, CheckSettings(targets=["onnxruntime"], across="isaa")).check(model)
        with pytest.raises(DriftlineError, match="cannot be told which instruction set"):
            CheckRun(checker, store, CheckSettings(targets=["onnx-reference"], inputs="random", across="isa")).check(
                model
            )
