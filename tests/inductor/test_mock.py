"""Mock backends on real models: in `torch.compile`, and as targets."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driftline.cli import run as command
from driftline.core.errors import DriftlineError

torch = pytest.importorskip("torch")

from driftline.inductor import (  # noqa: E402
    ConstraintWarning,
    PeakMemoryConstraint,
    ShapeConstraint,
    aot_mock_backend,
    mock_backend,
)


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_every_public_name_is_there() -> None:
    import driftline.inductor

    assert [name for name in driftline.inductor.__all__ if not hasattr(driftline.inductor, name)] == []


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(24, 20)
        self.second = torch.nn.Linear(20, 8)

    def forward(self, x: Any) -> Any:
        hidden = torch.relu(self.first(x))  # line of the first layer
        return self.second(hidden).softmax(-1)


def line_with(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(text))


def test_a_violation_names_the_line_of_the_user_and_what_would_fit() -> None:
    backend = mock_backend(constraints=[ShapeConstraint(alignment=8, dims=(-1,), only=("linear",))])
    with pytest.warns(ConstraintWarning):
        torch.compile(Model(), backend=backend)(torch.randn(3, 24))
    made = [one for one in backend.report.violations if "float32[3, 20]" in one.value]
    first = made[0]
    assert (first.constraint, first.operator) == ("shape", "torch.nn.functional.linear")
    assert first.source is not None
    assert (first.source.file, first.source.line) == (__file__, line_with("hidden = torch.relu"))
    assert first.fits == "padded to [3, 24]"
    assert not [one for one in backend.report.violations if "[3, 24]" in one.value]


def test_results_that_nothing_reads_are_not_violations() -> None:
    def attend(x: Any) -> Any:  # attention also makes a logarithm of each row, of shape [1, 12, 32], for a backward
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    def spread(x: Any) -> Any:
        variance, mean = torch.var_mean(x, dim=-1)
        return variance - mean

    backend = aot_mock_backend(profile="matrix32", strict=False, lower="eager")
    torch.compile(attend, backend=backend)(torch.ones(1, 12, 32, 32))
    assert any("dot_product" in name for graph in backend.report.graphs for name in graph.operators)
    assert backend.report.violations == []
    read = aot_mock_backend(constraints=[ShapeConstraint(alignment=32, only=("var_mean",))], lower="eager")
    with pytest.warns(ConstraintWarning):
        torch.compile(spread, backend=read)(torch.ones(3, 32))
    lowered = [one for one in read.report.violations if one.operator == "aten.var_mean"]
    assert [one.value for one in lowered][-1] == "float32[3] has size 3 in dimension 0"


def test_forward_and_backward_are_checked() -> None:
    backend = aot_mock_backend(constraints=[ShapeConstraint(alignment=8, only=("mm", "addmm"))], lower="eager")
    with pytest.warns(ConstraintWarning):
        torch.compile(Model(), backend=backend)(torch.randn(3, 24)).sum().backward()
    report = backend.report
    assert [graph.name for graph in report.graphs] == [
        "graph 0 before AOTAutograd", "graph 0 forward", "graph 0 backward",
    ]  # fmt: skip
    backward = [one for one in report.violations if one.graph == "graph 0 backward"]
    assert {one.operator for one in backward} == {"aten.mm"}
    assert all(one.source and one.source.file == __file__ for one in backward)
    assert report.graphs[2].operators["aten.mm"] == 3
    assert report.breaks == []


def test_graph_breaks_are_listed_as_not_checked() -> None:
    def broken(x: Any) -> Any:
        y = x * 2
        print("a graph break")
        return y.relu()

    backend = mock_backend(constraints=[ShapeConstraint(alignment=4)])
    torch.compile(broken, backend=backend)(torch.randn(4))
    report = backend.report
    assert report.passed
    assert [one.source.line for one in report.breaks if one.source] == [line_with('print("a graph break")')]
    assert "Not checked: what runs at 1 graph break" in report.summary()


@pytest.mark.parametrize(
    "constraint",
    [ShapeConstraint(alignment=7), pytest.param(PeakMemoryConstraint(max_bytes=64), marks=pytest.mark.slow)],
)
def test_strict_raises_after_a_reproduction_that_shows_it(constraint: Any, tmp_path: Path) -> None:
    backend = aot_mock_backend(strict=True, constraints=[constraint], lab=tmp_path / "lab")
    with pytest.raises(Exception, match="Violation: custom: ") as raised:
        torch.compile(Model(), backend=backend)(torch.randn(3, 24))
    (script,) = tmp_path.glob("lab/*/repro.py")
    assert str(script) in str(raised.value)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=500)
    assert done.returncode == 1, done.stderr
    assert f"[{constraint.key}]" in done.stdout


def test_the_variables_have_the_last_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOCK_STRICT", "1")
    monkeypatch.setenv("MOCK_ALIGNMENT", "5")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match="ShapeViolation: generic"):
        torch.compile(lambda x: x + 1, backend=mock_backend)(torch.ones(8, 8))
    assert list(tmp_path.glob("inductor-lab/mock-*/repro.py"))
    mock_backend.reset()


def test_settings_that_there_are_not_are_refused_at_once() -> None:
    with pytest.raises(DriftlineError, match="Did you mean 'strict'"):
        mock_backend(strct=True)
    with pytest.raises(DriftlineError, match="Did you mean 'npu'"):
        aot_mock_backend(profile="npuu")


def test_it_computes_like_the_device(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(
        '[compute]\naccumulate = "bfloat16"\nblock = 1\nflush_to_zero = true\nsaturate = true\n'
    )
    backend = mock_backend(profile=tmp_path / "p.toml")
    ones = torch.ones(1, 300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        product = torch.compile(lambda a, b: a @ b, backend=backend)(ones, ones.T)
        total = torch.compile(lambda a: a.sum(), backend=backend)(ones)
        bytes_ = torch.compile(lambda a: a + a, backend=backend)(torch.tensor([100, -100, 3], dtype=torch.int8))
        small = torch.compile(lambda a: a * 1e-39, backend=backend)(torch.tensor([1.0, -1.0, 1e9]))
        window = torch.ones(1, 3, 10, 10)
        convolved = torch.compile(lambda a: torch.conv2d(a, window), backend=backend)(torch.ones(1, 3, 10, 10))
    # Adding 1 to 256 does not change a number of 8 bits.
    assert product.item() == total.item() == convolved.item() == 256
    assert bytes_.tolist() == [127, -128, 6]
    assert small.tolist() == [0.0, 0.0, pytest.approx(1e-30)]


PROGRAM = """
import torch

def program():
    def f(x, w):
        y = torch.relu(x) + 1
        z = torch.tanh(y) * 2
        return torch.softmax(z @ w, -1)
    return f, (torch.ones(32, 24), torch.ones(24, 32))
"""


@pytest.mark.slow
def test_a_strict_target_fails_and_is_reduced_to_its_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(PROGRAM)
    Path("mine.toml").write_text('[shape]\nalignment = 32\nonly = ["mm"]\n')
    target = "mock:profile=mine.toml:strict=true"
    assert command(["check", "m.py:program", "--targets", f"{target},mock:profile=mine.toml", "--store", "s"]) == 1
    said = " ".join(capfd.readouterr().out.split())
    assert "ShapeViolation: mine: aten.mm breaks shape" in said
    assert "1 pass, 1 fail" in said
    assert command(["bugs", "list", "--store", "s"]) == 0
    bug = next(word for word in capfd.readouterr().out.split() if word.startswith("mock-"))
    assert command(["reduce", bug, "--store", "s"]) == 1  # it still fails
    assert "-> 1 operator" in capfd.readouterr().out
    again = _asked(bug, capfd)  # most is remembered
    with open("mine.toml", "a") as profile:
        profile.write("# another edition\n")
    assert _asked(bug, capfd) > again


def _asked(bug: str, capfd: pytest.CaptureFixture[str]) -> int:
    command(["reduce", bug, "--store", "s", "--json"])
    return int(json.loads(capfd.readouterr().out)["queries"])


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("mock:profile=bad.toml", "bad.toml:2: [shape] has no key 'algnment'. Did you mean 'alignment'?"),
        ("mock:profile=none.toml", "There is no profile 'none.toml'"),
        ("mock:alignment=x", "alignment=x is not valid"),
        ("mock:max_memory=much", "max_memory=much is not valid"),
    ],
)
def test_a_bad_profile_is_one_sentence(
    target: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(PROGRAM)
    Path("bad.toml").write_text("[shape]\nalgnment = 8\n")
    assert command(["check", "m.py:program", "--targets", target, "--store", "s"]) == 2
    error = " ".join(capfd.readouterr().err.split())
    assert said in error
    assert "Traceback" not in error


@pytest.mark.slow
def test_bert_base_under_the_strict_matrix_engine(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model = transformers.BertModel(transformers.BertConfig()).eval()
    backend = aot_mock_backend(profile="matrix32", strict=True, lab=tmp_path)
    began = time.process_time()
    with pytest.raises(Exception, match="ShapeViolation: matrix32"), torch.no_grad():
        torch.compile(model, backend=backend)(torch.ones(1, 24, dtype=torch.int64))
    assert time.process_time() - began < 60.0  # promised by the clock on the wall, which a busy machine does not keep
    found = backend.report.violations
    assert len(found) > 100
    assert all(one.source for one in found)
    assert any(one.source.file.endswith("modeling_bert.py") for one in found if one.source)
