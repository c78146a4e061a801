"""Inputs of KLEE and FPGen: read, written, and converted into each other without losing a bit."""

from __future__ import annotations

import json
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from driftline.cli import run
from driftline.core.errors import DriftlineError
from driftline.inputs.foreign.convert import read_samples
from driftline.inputs.foreign.float128 import read_float128, rounded, write_float128
from driftline.inputs.foreign.ktest import read_ktest, write_ktest
from driftline.inputs.foreign.specs import parse_specs
from driftline.inputs.symbolic.formats import FORMATS

ODD = np.array([0.0, -0.0, 1.5, -np.inf, np.nan, 1e-45], np.float32)


def by_hand(version: int) -> bytes:
    """A test case as KLEE's own writer lays it out."""

    def sized(part: bytes) -> bytes:
        return struct.pack(">I", len(part)) + part

    head = b"KTEST" + struct.pack(">II", version, 1) + sized(b"prog.bc")
    symbolic = struct.pack(">II", 0, 0) if version >= 2 else b""
    return head + symbolic + struct.pack(">I", 1) + sized(b"input") + sized(struct.pack("<3f", 1.0, -2.5, 0.1))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_test_case_of_klee_is_read(tmp_path: Path, version: int) -> None:
    (tmp_path / "test000001.ktest").write_bytes(by_hand(version))
    command = ["inputs", "convert", str(tmp_path / "test000001.ktest"), str(tmp_path / "bad.npz")]
    assert run([*command, "--spec", "input:float32[3]"]) == 0
    with np.load(tmp_path / "bad.npz") as held:
        assert held["input"].tolist() == np.array([1.0, -2.5, 0.1], np.float32).tolist()


def test_what_is_written_for_klee_is_laid_out_as_klee_does() -> None:
    raw = struct.pack("<3f", 1.0, -2.5, 0.1)
    assert write_ktest({"input": raw}, ("prog.bc",)) == by_hand(3)
    assert read_ktest(by_hand(3), "a file").arguments == ("prog.bc",)


@pytest.mark.parametrize("between", ["a.ktest", "a.csv", "a.safetensors", "test000001-input"])
def test_there_and_back_every_bit_is_kept(tmp_path: Path, between: str) -> None:
    np.savez(tmp_path / "first.npz", x=ODD, y=np.array([[1.0], [1e-310]]))
    specs = ["--spec", "x:float32[6]", "--spec", "y:float64[2,1]"]
    assert run(["inputs", "convert", str(tmp_path / "first.npz"), str(tmp_path / between)]) == 0
    assert run(["inputs", "convert", str(tmp_path / between), str(tmp_path / "last.npz"), *specs]) == 0
    with np.load(tmp_path / "first.npz") as first, np.load(tmp_path / "last.npz") as last:
        for name in first:
            assert first[name].tobytes() == last[name].tobytes()


def test_a_parsed_table_has_tests_of_any_length(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "testfile,values\ntest000001.ktest,nan,-inf,inf\ntest000002.ktest,0x1f,1e-3,-7\n"
    (tmp_path / "tests.csv").write_text(text)
    out = tmp_path / "bad.npz"
    assert run(["inputs", "convert", str(tmp_path / "tests.csv"), str(out), "--spec", "x:float32[3]", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == [str(out), str(tmp_path / "bad-2.npz")]
    with np.load(tmp_path / "bad-2.npz") as held:
        assert held["x"].tolist() == [31.0, np.float32(1e-3), -7.0]  # 0x1f is a number, not bits


def test_wide_floats_are_rounded_once() -> None:
    """Halfway between two float32 numbers and a hair above: through float64 the hair is lost."""
    hair = Fraction(1) + Fraction(1, 1 << 24) + Fraction(1, 1 << 80)
    assert rounded(hair, FORMATS["float32"]) == 1.0 + 2.0**-23
    assert float(np.float32(float(hair))) == 1.0
    assert rounded(-hair, FORMATS["float32"]) == -1.0 - 2.0**-23
    huge = Fraction(2) ** 128 - Fraction(2) ** 103 - 1  # just below halfway from the largest float32 to the next
    assert rounded(huge, FORMATS["float32"]) == float(np.finfo(np.float32).max)
    assert rounded(huge + 1, FORMATS["float32"]) == np.inf
    assert rounded(Fraction(10) ** 400, FORMATS["float64"]) == np.inf
    values = np.random.default_rng(0).standard_normal(64) * 10.0 ** np.arange(-32, 32)
    back = [rounded(value, FORMATS["float64"]) for value in read_float128(write_float128(values), "a file")]
    assert back == values.tolist()


@pytest.mark.parametrize(
    ("name", "data", "specs", "said"),
    [
        ("a.ktest", b"KTEXT" + bytes(20), [], "does not begin with KTEST"),
        ("a.ktest", b"KTEST" + struct.pack(">I", 9), [], "version 9"),
        ("a.ktest", by_hand(3)[:-4], ["input:float32[3]"], "cut off or damaged"),
        ("a.ktest", by_hand(3) + b"x", ["input:float32[3]"], "1 bytes follow"),
        ("a.ktest", by_hand(3), [], "bytes without a type: 'input' (12 bytes)"),
        ("a.ktest", by_hand(3), ["inpt:float32[3]"], "Did you mean 'input'"),
        ("a.ktest", by_hand(3), ["input:float64[3]"], "has 12 bytes, and"),
        ("a.ktest", b"KTEST" + struct.pack(">II", 3, 1 << 31), [], "promises 2147483648 entries"),
        ("test000001-input", bytes(17), [], "each number takes 16"),
        ("test000001-input", bytes(16), ["x:float32[2]"], "has 1 numbers, and --spec takes 2"),
        ("a.csv", b"a,b\n", [], "first line must be"),
        ("a.csv", b"testfile,values\na,1,one\n", [], "line 2: 'one' is not a number"),
        ("a.csv", b"\xff\xfe", [], "not text"),
        ("a.csv", b"sample,input,dtype,shape,index,value,bits\n0,x,float32,1,0,1,0x-1f\n", [], "not bits"),
        ("a.csv", b"sample,input,dtype,shape,index,value,bits\n0,x,float32,2x2,0,1,0x1\n", [], "only 1 of its"),
        ("a.txt", b"", [], "told by its name"),
    ],
)
def test_damage_is_one_sentence(tmp_path: Path, name: str, data: bytes, specs: list[str], said: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DriftlineError) as caught:
        read_samples(tmp_path / name, parse_specs(specs))
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["x", "x:float33[2]", "x:float32", "x:float32[2]y", "x:float32[999999999999]"])
def test_a_spec_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(DriftlineError, match="--spec"):
        parse_specs([text])
