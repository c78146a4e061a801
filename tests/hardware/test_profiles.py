"""Profiles are read strictly: what is wrong is answered with file, line and what is valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftline.core.errors import DriftlineError
from driftline.hardware.constraints.memory import MemoryConstraint
from driftline.hardware.constraints.shape import ShapeConstraint
from driftline.hardware.loading import load_profile, shipped_profiles
from driftline.hardware.profile import Profile
from driftline.hardware.reader import parse_profile, read_profile


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("strct = true", "p.toml:1: the profile has no key 'strct'. Did you mean 'strict'? Valid keys: name,"),
        ('name = "a"\n\n[shape]\n# x\nalgnment = 8\n', "p.toml:5: [shape] has no key 'algnment'. Did you mean 'alig"),
        ("[shape]\nalignment = 8\n[shap]\nalignment = 8", "p.toml:3: the profile has no key 'shap'. Did you mean"),
        ("[shape]\nalignment = '8'", "p.toml:2: [shape] alignment must be a whole number of at least 1, not '8'"),
        ("[[shape]]\nalignment = 8\n[[shape]]\nalignment = true", "p.toml:4: [shape] alignment must be"),
        ("name = 'a'\nshape = 8", "p.toml:2: shape must be a table, written [shape] with the keys only, alignment"),
        ("[dtype]\nallowed_dtypes = ['flot32']", "p.toml:2: [dtype] allowed_dtypes 'flot32' is not a dtype. Did"),
        ("[memory]\nmax_bytes = '12 XB'", "p.toml:2: [memory] max_bytes must be a number of bytes"),
        ("[compute]\naccumulate = 'int3'", "p.toml:2: [compute] accumulate must be one of bfloat16"),
        ("[layout]\nformats = ['nhwc']", "p.toml:2: [layout] formats 'nhwc' is not a memory format"),
        ("shape = [", "p.toml is not valid TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(DriftlineError) as refused:
        parse_profile(text, "p.toml", "p")
    assert said in str(refused.value)


def test_the_shipped_profiles_can_be_read() -> None:
    assert shipped_profiles() == ["generic", "matrix32", "microcontroller", "npu"]
    for name in shipped_profiles():
        profile = load_profile(name)
        assert profile.name == name
        assert profile.description
        assert len(profile.constraints) > 3


def test_a_profile_in_python(tmp_path: Path) -> None:
    file = tmp_path / "chip.py"
    file.write_text(
        "from driftline.inductor import Profile, ShapeConstraint\n"
        "profile = Profile('c', (ShapeConstraint(alignment=4),))\n"
    )
    assert load_profile(file).constraints == (ShapeConstraint(alignment=4),)
    with pytest.raises(DriftlineError, match="Did you mean 'npu'"):
        load_profile("npuu")


def test_variables_override_the_profile() -> None:
    profile = Profile("p", (ShapeConstraint(alignment=8, dims=(-1,)), MemoryConstraint(max_bytes=100)))
    changed = profile.overridden({"MOCK_STRICT": "1", "MOCK_ALIGNMENT": "32", "MOCK_MAX_MEMORY": "2 KiB"})
    assert changed.strict
    assert changed.constraints == (ShapeConstraint(alignment=32, dims=(-1,)), MemoryConstraint(max_bytes=2048))
    assert profile.overridden({"MOCK_ALIGNMENT": "1"}).constraints == (MemoryConstraint(max_bytes=100),)
    assert profile.overridden({}) == profile
    for name, value in (("MOCK_STRICT", "maybe"), ("MOCK_ALIGNMENT", "x"), ("MOCK_MAX_MEMORY", "much")):
        with pytest.raises(DriftlineError, match=f"{name}={value} is not valid"):
            profile.overridden({name: value})


def test_values_in_python_are_checked_like_those_of_a_file() -> None:
    with pytest.raises(ValueError, match=r"ShapeConstraint\(alignment=0\): must be a whole number"):
        ShapeConstraint(alignment=0)
    assert MemoryConstraint(max_bytes="1 KiB").max_bytes == 1024


def test_a_profile_nested_without_end_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("name = " + "[" * 100_000)
    with pytest.raises(DriftlineError, match="not valid TOML"):
        read_profile(tmp_path / "p.toml")


def test_a_size_that_rounds_to_no_byte_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "npu.toml"
    path.write_text('[memory]\nmax_bytes = "0.0001 KiB"\n')
    with pytest.raises(DriftlineError, match="max_bytes"):
        read_profile(path)
