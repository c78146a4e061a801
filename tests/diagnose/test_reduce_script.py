"""`driftline reduce SCRIPT`: what remains of scripts with one fault, budgets, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driftline.core.verdict import Judgement
from driftline.diagnose.reduce.scripts.likeness import sorts_of
from driftline.diagnose.reduce.scripts.reducer import reduce_script
from driftline.diagnose.reduce.scripts.size import code_lines
from driftline.execute.pool import Pool
from driftline.scenarios.judge import ScriptResult, judge_script, play_eagerly
from driftline.scenarios.runs import ScriptOptions
from driftline.scenarios.script import UserScript, read_script
from typed import typed

SCRIPTS = Path(__file__).parents[1] / "scenarios" / "scripts"
BACKEND = """def on_copies(graph, example):
    return lambda *inputs: graph(*[value.clone() for value in inputs])
"""
STATEFUL = f'''import torch


{BACKEND}

class Settings:
    rate = 0.5
    width = 3


class RunningMean(torch.nn.Module):
    """Subtracts a running mean."""

    def __init__(self, settings):
        super().__init__()
        self.rate = settings.rate
        self.register_buffer("mean", torch.zeros(settings.width))

    def forward(self, x):
        if self.rate > 1:
            return x
        self.mean.lerp_(x.mean(0), self.rate)
        return x - self.mean


def batches(count, width):
    return [torch.ones(4, width) * (k + 1) for k in range(count)]


settings = Settings()
model = torch.compile(RunningMean(settings), backend=on_copies)
for batch in batches(3, settings.width):
    print(model(batch).sum())
'''


def judged(script: UserScript, text: str, pool: Pool) -> ScriptResult:
    shorter, options = UserScript(script.path, text), ScriptOptions()
    return judge_script(shorter, play_eagerly(shorter, pool, options, None, lambda stage: None), pool, options)


@pytest.mark.slow
def test_a_class_with_state_becomes_a_few_lines(tmp_path: Path) -> None:
    script, short = tmp_path / "repro.py", tmp_path / "short.py"
    script.write_text(STATEFUL)
    done = typed("reduce", str(script), "--budget", "5m", "--out", str(short), "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["text"], told["lines_before"]) == (1, short.read_text(), 23)
    assert told["lines_after"] == code_lines(told["text"]) <= 13
    assert "value.clone() for value in inputs" in told["text"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lost_append", "wrong_gradient", "lost_error"])
def test_short_script_fails_in_the_same_way(name: str, pool: Pool) -> None:
    script = read_script(SCRIPTS / f"{name}.py")
    first = judged(script, script.text, pool)
    reduced = reduce_script(script, pool, ScriptOptions(), seconds=120)
    last = judged(script, reduced.after, pool)
    assert last.judgement is Judgement.FAIL
    assert sorts_of(first.differences) & sorts_of(last.differences)
    assert reduced.lines_after <= reduced.lines_before
    assert reduced.reason in [one.sentence for one in last.differences]


def test_no_time_leaves_the_script_as_it_is(pool: Pool) -> None:
    script = read_script(SCRIPTS / "lost_mutation.py")
    reduced = reduce_script(script, pool, ScriptOptions(), seconds=0.01)
    assert (reduced.after, reduced.complete, reduced.questions) == (script.text, False, 0)
    assert "is wrong" in reduced.reason


REFUSED = [
    (("fine_state",), "fine_state.py does not fail on its own backend (pass: "),
    (("never_compiles",), "never_compiles.py calls nothing that torch.compile, torch._dynamo.optimize, torch.export,"),
    (("lost_sharing", "--inputs", "random"), "--inputs is for a program that Driftline calls"),
    (("lost_sharing", "--out", "short.onnx"), "--out short.onnx: what comes out is Python"),
    (("lost_sharing", "--target", "onnxruntime"), "onnxruntime: a script that calls torch.compile runs on"),
]


@pytest.mark.parametrize("words, sentence", REFUSED, ids=[" ".join(words) for words, _ in REFUSED])
def test_what_cannot_be_reduced_is_refused_in_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    name, *options = words
    done = typed("reduce", str(SCRIPTS / f"{name}.py"), *options)
    assert done.returncode == 2
    told = [line for line in done.stderr.splitlines() if line.startswith("driftline:")]
    assert len(told) == 1 and told[0].startswith(f"driftline: {sentence}")
