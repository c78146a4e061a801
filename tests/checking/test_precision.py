"""Failures that reduced precision explains, and those that it must not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from driftline.campaign.check.session import check_program
from driftline.campaign.explain.replay import replay
from driftline.checking.checker import Checker, TargetResult
from driftline.checking.open import open_program
from driftline.checking.result import CheckResult, ReplayAnswer
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import parse_targets
from driftline.core.verdict import Judgement
from driftline.report.gather import gather_store
from driftline.store import Store

HERE = Path(__file__).parent
PLUGIN = str(HERE / "precise_compilers.py")
HALF = HERE / "half_programs.py"


def check(
    checker: Checker, store: Path, program: str, targets: str, *, accept: Sequence[str] = (), keep: bool = False
) -> CheckResult:
    load_plugins([PLUGIN])
    options = CheckOptions(plugins=(PLUGIN,), accept=tuple(accept))
    with Store.create(store) as kept:
        opened = open_program(program, checker.pool, options)
        wanted = parse_targets(targets)
        inputs = "random" if program.endswith(".onnx") else "example"
        return check_program(checker, kept, opened, targets=wanted, inputs=inputs, options=options, keep_reduced=keep)


def only(result: CheckResult) -> TargetResult:
    (row,) = result.results
    return row


def test_sums_in_float16_are_reduced_precision(checker: Checker, store_folder: Path) -> None:
    result = check(checker, store_folder, f"{HALF}:gpt", "eager,sums-in-half,onnxruntime")
    eager, planted, runtime = result.results
    assert eager.verdict.judgement is Judgement.PASS
    assert planted.verdict.judgement is Judgement.REDUCED, planted.verdict
    assert planted.verdict.reason == "agrees if it may accumulate in float16"
    assert planted.verdict.evidence.policies == ("half-accumulation",)
    assert planted.verdict.evidence.accept == "--accept sums-in-half=half-accumulation"
    assert planted.effect is None, "nothing says that its output is scores"
    # On some machines ONNX Runtime keeps these sums in float32.
    assert runtime.verdict.judgement in (Judgement.PASS, Judgement.REDUCED), runtime.verdict
    assert not result.bugs, "it is no finding"
    assert result.compared


def test_accepted_arithmetic_passes_and_is_kept_with_the_case(checker: Checker, store_folder: Path) -> None:
    strict = check(checker, store_folder, f"{HALF}:gpt", "sums-in-half", accept=["eager=half-accumulation"], keep=True)
    assert only(strict).verdict.judgement is Judgement.REDUCED, "accepted of another target"
    (bug,) = strict.bugs.values()
    with Store.create(store_folder) as kept:
        assert kept.load_case(bug.findings[0].case_id).options.accept == ("eager=half-accumulation",)
        assert replay(kept, bug.id, checker).answer is ReplayAnswer.STILL_FAILS
        (reported,) = gather_store(kept).bugs
    assert (reported.kind, reported.severity_name) == ("reduced-precision", "Less precise than the program asks for")
    assert " is less precise than asked: " in reported.title
    assert reported.reason.startswith("agrees if it may accumulate in float16. Otherwise: ")
    assert reported.reason.endswith("Accept it with --accept sums-in-half=half-accumulation.")
    row = only(check(checker, store_folder, f"{HALF}:gpt", "sums-in-half", accept=["sums-in-half=half-accumulation"]))
    assert row.verdict.judgement is Judgement.PASS
    assert row.verdict.reason == "agrees; accumulates in float16, as accepted"


@pytest.mark.parametrize("bug", ["epsilon", "softplus", "tile"])
def test_bugs_in_float16_stay_failures(bug: str, checker: Checker, store_folder: Path) -> None:
    row = only(check(checker, store_folder, f"{HALF}:mixed", f"lazy:bug={bug}", accept=["half-accumulation"]))
    assert row.verdict.judgement is Judgement.FAIL, row.verdict


def test_float32_programs_are_not_excused(checker: Checker, store_folder: Path) -> None:
    """A missing tile in float32, where nothing but a fast exponential would be plausible."""
    row = only(check(checker, store_folder, f"{HALF}:gpt_in_float32", "lazy:bug=tile"))
    assert row.verdict.judgement is Judgement.FAIL, row.verdict


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small CNN, quantised by ONNX Runtime's own tool on seeded data."""
    import torch
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Seeded(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            random = np.random.default_rng(1)
            batches = random.standard_normal((4, 4, 3, 12, 12), dtype=np.float32)
            self._batches = iter([{"image": batch} for batch in batches])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self._batches, None)

    folder = tmp_path_factory.mktemp("quantised")
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(16, 10),
    ).eval()
    plain, result = folder / "plain.onnx", folder / "quantised.onnx"
    torch.onnx.export(
        network, (torch.randn(4, 3, 12, 12),), str(plain), dynamo=False, opset_version=19,
        input_names=["image"], output_names=["logits"],
    )  # fmt: skip
    quantize_static(str(plain), str(result), Seeded(), quant_format=QuantFormat.QDQ)
    return result


def test_requantisation_is_reduced_precision(quantised: Path, checker: Checker, store_folder: Path) -> None:
    targets = "onnxruntime,requantises,requantises:quanta=2,requantises:quanta=6"
    runtime, one, two, far = check(checker, store_folder, str(quantised), targets).results
    assert runtime.verdict.judgement in (Judgement.PASS, Judgement.REDUCED), runtime.verdict
    assert one.verdict.evidence.policies == ("requantise",), one.verdict
    assert one.verdict.reason == "agrees if it may re-quantise one quantum off"
    assert two.verdict.evidence.policies == ("requantise-2",), two.verdict
    assert far.verdict.judgement is Judgement.FAIL, far.verdict


def test_lost_tiny_numbers_are_not_taken_for_float32_where_the_others_are_float64(
    checker: Checker, store_folder: Path
) -> None:
    """exp(x) - 1 loses numbers that are nothing in float32 either, but what is right in all digits of float64 was not
    computed in float32."""
    row = only(check(checker, store_folder, f"{HALF}:tiny_doubles", "lazy:bug=expm1"))
    assert row.verdict.judgement is Judgement.FAIL, row.verdict
    assert not row.verdict.evidence.policies


STEPS = """
import torch

def program():
    return lambda x: torch.ceil(x) * 3.0 + x, (torch.tensor([1e-40, -1e-40, 0.5, 2.0, 3.5]),)
"""


def test_a_step_that_follows_from_a_subnormal_input_is_reduced_precision(
    checker: Checker, store_folder: Path, tmp_path: Path
) -> None:
    """The ceiling of the smallest numbers is one, that of zero is zero: no rounding bound explains it."""
    (tmp_path / "steps.py").write_text(STEPS)
    program = f"{tmp_path / 'steps.py'}:program"
    row = only(check(checker, store_folder, program, "lazy:bug=flush"))
    assert row.verdict.judgement is Judgement.REDUCED, row.verdict
    assert row.verdict.evidence.policies == ("flush-to-zero",)
    accepting = ["lazy=flush-to-zero"]
    row = only(check(checker, store_folder, program, "lazy:bug=flush", accept=accepting))
    assert row.verdict.judgement is Judgement.PASS, row.verdict
    row = only(check(checker, store_folder, program, "lazy:bug=floor", accept=accepting))
    assert row.verdict.judgement is Judgement.FAIL, "a wrong step stays one, subnormal inputs beside it or not"
