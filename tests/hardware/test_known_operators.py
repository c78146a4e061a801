"""Names of operators in profiles that nothing has are pointed out, with the nearest."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from driftline.hardware.constraints.operators import OperatorConstraint
from driftline.hardware.constraints.shape import ShapeConstraint
from driftline.hardware.known_operators import unknown_operators
from driftline.hardware.loading import load_profile, shipped_profiles
from driftline.hardware.profile import Profile


@pytest.mark.parametrize("name", shipped_profiles())
def test_shipped_profiles_name_operators_that_exist(name: str) -> None:
    assert unknown_operators(load_profile(name)) == []


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    denied = OperatorConstraint(denied=("sotfmax", "aten.mm", "*svd*", "getitem"))
    only = ShapeConstraint(alignment=8, only=("conv*", "adddmm", "*convolvution*"))
    first, second, third = unknown_operators(Profile("mine", (denied, only)))
    assert first.startswith(
        "mine: no operator of torch is called 'sotfmax' ([operators] denied). Did you mean 'softmax'"
    )
    assert "'adddmm' ([shape] only)" in second and "addmm" in second
    assert "'*convolvution*'" in third and "convolution" in third
