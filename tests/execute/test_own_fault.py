"""What our own backends do wrong is a fault of ours; what a compiler says through them is the compiler's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from driftline.checking.batch import Screening
from driftline.checking.batch_requests import ProgramRequest
from driftline.cli import run
from driftline.core.target import Target
from driftline.execute import own_fault
from driftline.execute.further_calls import FurtherCalls
from driftline.execute.own_fault import is_ours
from driftline.execute.pool import Pool
from driftline.store import Store

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def plain(x: int) -> int:
    return x


class OfTheCompiler(ValueError):
    """What compilers written in C raise."""


def raise_it(error: Exception) -> None:
    raise error


def attribute() -> Any:
    return np.float32(1).no_such_attribute  # type: ignore[attr-defined]


def asserted() -> None:
    assert not plain(1)


def compiled_by_c() -> Any:
    return np.zeros((2, 3)).reshape(4)


def unpacked() -> None:
    (_,) = [plain(number) for number in (1, 2)]


def looped_over() -> None:
    for _ in nothing():
        pass


def unpacked_with_a_rest() -> None:
    _, *_ = nothing()


def nothing() -> Any:
    """A compiler that returned None instead of results."""


OURS: dict[str, Callable[[], Any]] = {
    "a key that is not there": lambda: {}["size"],
    "a name that is not there": lambda: no_such_name,  # type: ignore[name-defined]  # noqa: F821
    "an attribute that is not there": attribute,
    "an operator that does not fit": lambda: "1" + plain(1),  # type: ignore[operator]
    "an assertion": asserted,
    "an argument that a compiler does not have": lambda: plain(y=1),  # type: ignore[call-arg]
}
COMPILERS: dict[str, Callable[[], Any]] = {
    "what a backend reports": lambda: raise_it(RuntimeError("it failed")),
    "what a backend raises as ValueError": lambda: raise_it(ValueError("it failed")),
    "an exception of the compiler's own": lambda: raise_it(OfTheCompiler("bad shape")),
    "raised in C, without a frame": compiled_by_c,
    "raised inside a library": lambda: json.loads("{"),
    "too many results": unpacked,
    "no results to loop over": looped_over,
    "no results to take apart": unpacked_with_a_rest,
    "no results to list": lambda: [*nothing()],
}


def caught(work: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as found:
        work()
    return found.value


@pytest.fixture
def this_file_is_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_fault, "_OURS", (str(Path(__file__).parent),))


@pytest.mark.usefixtures("this_file_is_a_backend")
@pytest.mark.parametrize("what", OURS)
def test_ours(what: str) -> None:
    assert is_ours(caught(OURS[what]))


@pytest.mark.usefixtures("this_file_is_a_backend")
@pytest.mark.parametrize("what", COMPILERS)
def test_the_compilers(what: str) -> None:
    assert not is_ours(caught(COMPILERS[what]))


@pytest.mark.parametrize("what", OURS)
def test_a_program_of_a_user_is_not_ours(what: str) -> None:
    assert not is_ours(caught(OURS[what]))


PLUGIN = str(Path(__file__).parent / "broken_wrapper.py")


def test_it_is_no_finding(pool: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = onnx.TensorProto.FLOAT
    ends = [onnx.helper.make_tensor_value_info(name, kind, [4]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Abs", ["x"], ["y"])], "g", ends[:1], ends[1:])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "abs.onnx")
    words = ["check", str(tmp_path / "abs.onnx"), "--targets", "broken-wrapper", "--plugin", PLUGIN]
    assert run([*words, "--store", str(tmp_path / "s")]) == 3
    said = capsys.readouterr()
    assert "AttributeError" in said.err and "inconclusive" in said.out
    with Store.open(tmp_path / "s") as store:
        assert not store.bugs()

    request = ProgramRequest("graph", "abs", 0, ("random",), seed="0")
    with Screening(pool, "onnx", plugins=(PLUGIN,)) as screening:
        (result,) = screening.screen([request], Target("broken-wrapper"))
    assert result.judgement == "inconclusive" and "AttributeError" in result.internal_error


@pytest.mark.usefixtures("this_file_is_a_backend")
def test_a_further_call_is_told_apart_too() -> None:
    def called_again(work: Callable[[], Any]) -> Any:
        backend: Any = SimpleNamespace(threads=False)
        program: Any = SimpleNamespace(grad=False, reseed=lambda: None)
        calls = FurtherCalls(({"x": np.ones(1)},))
        return calls.make(backend, lambda arrays: work(), program, [{}], [], lambda arrays, index: "", {}, 0.0)

    assert called_again(COMPILERS["what a backend reports"]).failure.message == "it failed"
    with pytest.raises(NameError):
        called_again(OURS["a name that is not there"])
