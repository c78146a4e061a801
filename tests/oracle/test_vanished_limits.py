"""A limit that vanishes in the dtype of its program is zero in the float64 run; what is exactly zero has no noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from driftline.checking.checker import Checker
from driftline.core.verdict import Judgement, Kind
from driftline.oracle.shadow.torch.shadow import TorchShadow, record

ROWS = torch.tensor([[0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]])


def shadow_of(function: object, *inputs: torch.Tensor) -> TorchShadow:
    with torch.no_grad():
        return TorchShadow(record(lambda: {"output": function(*inputs)}))  # type: ignore[operator]


@pytest.mark.parametrize(("dtype", "is_nan"), [(torch.float16, True), (torch.bfloat16, False), (torch.float32, False)])
def test_normalising_a_row_of_zeros(dtype: torch.dtype, is_nan: bool) -> None:
    """1e-12 is zero in float16 and a number in the others; every legal run agrees with eager about it."""
    rows = ROWS.to(dtype)
    shadow = shadow_of(lambda x: F.normalize(x, dim=1), rows)
    runs = [shadow.reference(), *(shadow.sample(number) for number in range(6))]
    assert torch.isnan(F.normalize(rows, dim=1)[0]).all() == is_nan
    for run in runs:
        assert np.isnan(run["output"][0]).all() == is_nan
        assert np.isfinite(run["output"][1]).all()


def test_a_limit_that_is_only_rounded_stays_as_it_is_written() -> None:
    shadow = shadow_of(lambda x: x.clamp_min(0.1), torch.zeros(2, dtype=torch.float16))
    assert shadow.reference()["output"].tolist() == [0.1, 0.1]


def test_a_zero_has_no_sign_of_its_own() -> None:
    """Compilers may drop `+ 0.0`, which changes the sign of a zero; so either infinity is legal."""
    shadow = shadow_of(lambda x: 1.0 / (x + 0.0), torch.zeros(8))
    shadow.reference()
    drawn = np.concatenate([shadow.sample(number)["output"] for number in range(4)])
    assert {float(value) for value in drawn} == {np.inf, -np.inf}


def test_a_number_that_vanishes_when_a_tensor_is_filled() -> None:
    shadow = shadow_of(lambda x: x / torch.full_like(x, 1e-12), torch.zeros(2, dtype=torch.float16))
    assert np.isnan(shadow.reference()["output"]).all()


def test_cancellation_still_has_the_noise_of_its_terms() -> None:
    """(x + 1) - x - 1 is zero in float64, and anything but that in float32."""
    x = torch.full((4,), 3.0e7)
    shadow = shadow_of(lambda x: ((x * 1.1) + 1.0) - (x * 1.1) - 1.0, x)
    shadow.reference()
    assert any(np.abs(shadow.sample(number)["output"]).max() > 0 for number in range(4))


def test_a_compiler_that_hides_the_nan_is_found(checker: Checker) -> None:
    from driftline.checking.open import open_source
    from driftline.core.case import Case, CheckOptions, Inputs
    from driftline.core.program import SourceBundle
    from driftline.core.target import Target

    text = (
        "import torch\nimport torch.nn.functional as F\n\n\ndef program():\n"
        "    return (lambda x: F.normalize(x, dim=-1)), (torch.ones(2, 4, dtype=torch.float16),)\n"
    )
    opened = open_source(SourceBundle("n.py", "program", {"n.py": text}), checker.pool, CheckOptions())
    (name,) = (spec.name for spec in opened.program.inputs)
    inputs = Inputs({name: ROWS.to(torch.float16).numpy()}, "a row of zeros")
    case = Case(opened.program, (inputs,), (Target("eager"), Target("inductor")), CheckOptions())
    eager, inductor = checker.check(case).results
    assert eager.verdict.judgement is Judgement.PASS
    assert inductor.verdict.judgement is Judgement.FAIL
    assert inductor.verdict.kind is Kind.WRONG_NONFINITE
