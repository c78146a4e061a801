"""Tensor files: every dtype comes back bit for bit, and other safetensors libraries can read them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from driftline.core.tensors import DTYPES, Arrays, TensorSpec, load_tensors, numpy_dtype, save_tensors, spec_of

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).filter(
    lambda name: name != "__metadata__"
)


@st.composite
def tensors(draw: st.DrawFn, dtypes: tuple[str, ...] = DTYPES) -> Arrays:
    made: Arrays = {}
    for name in draw(st.lists(names, max_size=4, unique=True)):
        dtype, shape = numpy_dtype(draw(st.sampled_from(dtypes))), draw(shapes)
        size = int(np.prod(shape)) * dtype.itemsize
        data = draw(st.binary(min_size=size, max_size=size))
        if dtype.kind == "b":
            data = bytes(byte & 1 for byte in data)
        made[name] = np.frombuffer(data, dtype=dtype).reshape(shape)
    return made


def assert_same(found: Arrays, expected: Arrays) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(arrays=tensors())
def test_what_is_written_is_read(tmp_path: Path, arrays: Arrays) -> None:
    save_tensors(tmp_path / "file", arrays)
    found = load_tensors(tmp_path / "file")
    assert_same(found, arrays)
    assert all(array.flags.writeable for array in found.values())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


PLAIN = tuple(d for d in DTYPES if not d.startswith(("complex", "float8", "bfloat")))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(arrays=tensors(PLAIN))
def test_the_safetensors_library_reads_the_files(tmp_path: Path, arrays: Arrays) -> None:
    save_tensors(tmp_path / "file", arrays)
    found = load_file(tmp_path / "file")
    assert_same({name: found[name] for name in arrays}, arrays)
    assert set(found) == set(arrays)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3)], ids=str)
def test_every_dtype_and_odd_shape(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, numpy_dtype(dtype)) + np.ones((), numpy_dtype(dtype))
    arrays = {"x": array.astype(numpy_dtype(dtype))}
    save_tensors(tmp_path / "file", arrays)
    assert_same(load_tensors(tmp_path / "file"), arrays)
    assert spec_of("x", arrays["x"]) == TensorSpec("x", dtype, shape)


def test_layouts_other_than_c_are_stored_as_what_they_mean(tmp_path: Path) -> None:
    base = np.arange(24, dtype=np.int32).reshape(4, 6)
    arrays = {"turned": base.T, "every other": base[:, ::2], "backwards": base[::-1], "big endian": base.astype(">i4")}
    save_tensors(tmp_path / "file", arrays)
    found = load_tensors(tmp_path / "file")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_complex_numbers_keep_signed_zeros_and_nan(tmp_path: Path) -> None:
    array = np.array([complex(-0.0, np.nan), complex(np.inf, -0.0), complex(0.0, -np.inf)], np.complex64)
    save_tensors(tmp_path / "file", {"x": array})
    assert load_tensors(tmp_path / "file")["x"].tobytes() == array.tobytes()


def test_a_dtype_that_cannot_be_stored_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"'words' has the dtype <U5"):
        save_tensors(tmp_path / "file", {"words": np.array(["hello"])})
    assert not list(tmp_path.iterdir())


def test_the_header_is_aligned_and_plain(tmp_path: Path) -> None:
    save_tensors(tmp_path / "file", {"x": np.ones(3)})
    data = (tmp_path / "file").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0
    assert json.loads(data[8 : 8 + length])["x"] == {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]}


def test_spec_fits() -> None:
    spec = TensorSpec("x", "float32", (-1, 3))
    assert spec.fits((7, 3))
    assert not spec.fits((7, 4))
    assert not spec.fits((7, 3, 1))
    assert str(spec) == "x: float32[?, 3]"
    assert spec.sized(2) == (2, 3)
