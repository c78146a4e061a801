"""`driftline bench` with real compilers on a small model; what it writes and how it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from handmade import row, run

from driftline.bench.options import BenchOptions
from driftline.bench.page import run_page
from driftline.bench.result import BenchRow, read_run
from driftline.bench.runner import run_bench
from driftline.bench.suite import FULL, SMALL, SUITE, SizedModel
from driftline.bench.text import cells, judged_words, notes
from driftline.checking.checker import Checker, CheckOutcome
from driftline.cli import run as command
from driftline.core.case import Case
from driftline.core.target import parse_targets
from driftline.execute.pool import Pool


def test_a_small_model_is_measured_and_one_bad_target_does_not_end_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    targets = "onnxruntime,mock:profile=matrix32:strict=false,mock:profile=matrix32:strict=true,tensorrt"
    out = tmp_path / "run"
    asked = ["--size", "small", "--models", "mamba", "--backends", targets, "--repeat", "8", "--no-verdict"]
    code = command(["bench", *asked, "--out", str(out)])
    captured = capfd.readouterr()
    assert code == 4, captured.err  # tensorrt is not here
    found = read_run(out)
    assert found.complete and [r.target for r in found.rows] == ["eager", *targets.split(",")]
    eager, onnxruntime, mock, strict, missing = found.rows
    for timed in (eager, onnxruntime, mock):
        assert timed.outcome == "OK" and timed.speedup and timed.wall and timed.cpu and timed.rounds
        assert timed.wall.low <= timed.wall.value <= timed.wall.high and len(timed.rounds.cpu) == 8
        assert timed.compile_seconds is not None and timed.run_peak
    assert onnxruntime.converter and onnxruntime.conclusion in ("faster", "slower", "within noise")
    assert eager.graphs is None and mock.graphs == 1 and (mock.violations or 0) > 0
    assert strict.outcome == "ERROR" and strict.violations == mock.violations and "breaks shape" in strict.problem
    assert missing.outcome == "UNAVAILABLE" and "TensorRT needs" in missing.problem
    assert "[5/5] mamba on tensorrt: UNAVAILABLE" in captured.err and "onnxruntime" in captured.out
    page = (out / "bench.html").read_text()
    assert page.count('class="bar ') == 3 and "http" not in page
    assert command(["bench", "--models", "mamba", "--out", str(out)]) == 2
    assert "holds a run already" in capfd.readouterr().err


class JudgedAsAnother(SizedModel):
    """A model whose verdicts are on something else, so that it shows."""

    def judged(self) -> SizedModel:
        return SUITE["mamba"][SMALL]


def test_an_interrupted_run_goes_on_with_what_is_missing(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are there are taken over: these say things that no measurement would. What is missing is the verdict,
    on the smaller input of this model."""
    model = JudgedAsAnother("resnet-18-narrow", "", judged_on="2 x 12 tokens")
    monkeypatch.setitem(SUITE["resnet18"], SMALL, model)  # type: ignore[arg-type]
    judged: list[str] = []
    original = Checker.check

    def check(self: Checker, case: Case, **others: Any) -> CheckOutcome:
        judged.append(case.program.inputs[0].name)
        return original(self, case, **others)

    monkeypatch.setattr(Checker, "check", check)
    timed = BenchRow("resnet18", "eager", version="timed before", verdict="pass", reason="judged before")
    unjudged = BenchRow("resnet18", "aot_eager", version="timed before")
    options = BenchOptions(size="small")
    run = run_bench(Checker(pool), ["resnet18"], parse_targets("eager,aot_eager"), options, known=(timed, unjudged))
    eager, other = run.rows
    assert run.complete and eager == timed
    assert (other.version, other.verdict) == ("timed before", "pass") and other.speedup is None
    assert judged == ["input_ids"] and run.models[0].judged_on == "2 x 12 tokens"
    assert judged_words(run.models[0]) == ["verdicts: on 2 x 12 tokens, with the same weights"]


def test_large_models_are_judged_on_less_with_the_same_weights() -> None:
    for name in ("gpt", "mamba", "unet"):
        full = SUITE[name][FULL]
        assert full.judged().corpus == full.corpus and full.judged_on
        assert full.judged().bundle("float32") != full.bundle("float32")
    assert SUITE["gpt"][FULL].judged().settings == {"batch": 1, "length": 32}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_compilers_are_timed_and_judged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    asked = ["--size", "small", "--models", "resnet18", "--backends", "inductor,onnxruntime,mock:profile=npu"]
    assert command(["bench", *asked, "--repeat", "8", "--out", str(out), "--json"]) == 1  # the npu computes in bfloat16
    told = json.loads(capfd.readouterr().out)
    assert told["complete"] and [one["outcome"] for one in told["rows"]] == ["OK"] * 4
    eager, inductor, onnxruntime, npu = read_run(out).rows
    assert [one.verdict for one in (eager, inductor, onnxruntime, npu)] == ["pass", "pass", "pass", "fail"]
    assert inductor.graphs == 1 and inductor.breaks == () and (inductor.compile_seconds or 0) > 0.5
    assert (inductor.compile_cpu or 0) > 0.5
    assert npu.conclusion == "slower" and (npu.violations or 0) > 100


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--models bret", "Did you mean 'bert'"),
        ("--models ,", "name at least one of bert"),
        ("--backends inductr", "inductor"),
        ("--backends mock:profile=nope", "nope"),
        ("--dtype float8", "float32"),
        ("--repeat 3", "x>=8"),
    ],
)
def test_bad_options_are_one_sentence(arguments: str, told: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert command(["bench", *arguments.split()]) == 2
    said = capfd.readouterr().err
    assert told in said and "Traceback" not in said


def test_the_page_draws_a_bar_for_each_speed_up_and_escapes_names() -> None:
    slow = row("mock:profile=<b>.toml", 0.5, 3, conclusion="slower", breaks=("data-dependent <branch>",))
    broken = row("tvm", 1.0, 4, outcome="CRASH", problem="SIGSEGV", speedup=None)
    page = run_page(run(row("eager", 1.0), row("inductor", 2.0, 1, conclusion="faster"), slow, broken))
    assert page.count('class="bar ') == 3 and 'class="bar good"' in page and 'class="bar bad"' in page
    assert "<b>.toml" not in page and "&lt;branch&gt;" in page and "crash: SIGSEGV" in page


def test_cells_say_what_was_measured() -> None:
    told = cells(row("inductor", 2.0, 1, conclusion="faster", violations=7))
    assert told[0] == "inductor" and told[1].startswith("2.0") and told[1].endswith("] faster")
    assert told[2] == "2.0" and told[3].startswith("5 [") and told[4] == "10"
    assert told[6:] == ("100", "1", "7", "pass")
    broken = row("tvm", 1.0, 4, outcome="CRASH", problem="SIGSEGV", speedup=None)
    assert cells(broken)[1] == "crash" and notes([broken]) == ["tvm: crash: SIGSEGV"]


def test_the_models_have_the_sizes_of_their_papers() -> None:
    """Counted without building them: known from the papers and the published weights."""
    import torch

    from driftline.models.convnets import ResNet18, SegmentationUNet
    from driftline.models.state_space import StateSpaceModel

    with torch.device("meta"):
        sizes: dict[str, Any] = {
            "resnet18": ResNet18(), "unet": SegmentationUNet(), "mamba": StateSpaceModel(768, 24, 16, 50280),
        }  # fmt: skip
        counted = {name: sum(p.numel() for p in model.parameters()) for name, model in sizes.items()}
        tile = sizes["unet"](torch.empty(1, 1, 572, 572))
    assert counted == {"resnet18": 11_689_512, "unet": 31_030_658, "mamba": 129_135_360}
    assert tile.shape == (1, 2, 388, 388)
    assert {sized[FULL].corpus for sized in SUITE.values()} == {
        "bert-base", "resnet-18", "mamba-130m", "gpt2-124m", "unet-2015",
    }  # fmt: skip
