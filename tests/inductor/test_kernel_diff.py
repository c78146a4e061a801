"""KernelDiff in a process of its own, with the real torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHARED = '''
import dataclasses, gc, json, resource, sys
import torch
from driftline.inductor import KernelDiffHarness

@dataclasses.dataclass
class Out:
    first: torch.Tensor
    rest: dict

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = torch.nn.Linear(6, 8)

    def forward(self, x):
        h = torch.relu(self.a(x))
        return Out(h, {"sums": (h.sum(0), h.amax()), "many": [x * 2]})

def wrong(graph, example):
    """A backend that is wrong in one output."""
    def run(*args):
        out = list(graph(*args))
        out[0] = out[0] * 1.001
        return out
    return run
'''


def _run(code: str, folder: Path, timeout: int = 500) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", SHARED + code], capture_output=True, text=True, timeout=timeout, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_nested_outputs_are_judged_one_by_one_by_the_oracle(tmp_path: Path) -> None:
    code = """
model, x = Net(), torch.linspace(-2, 2, 18).reshape(3, 6)
good = KernelDiffHarness(model, (x,), test_backend="aot_eager", grad=True, runs=3).compare()
harness = KernelDiffHarness(model, {"x": x}, model_name="net", test_backend=wrong)
bad = harness.compare(generate_visualizations=True, out="lab")
def crash(graph, example): raise RuntimeError("no such device")
broken = KernelDiffHarness(model, (x,), test_backend=crash).compare()
print(json.dumps([json.loads(r.to_json()) for r in (good, bad, broken)]))
"""
    good, bad, broken = _run(code, tmp_path)
    names = {"first", "rest.sums.0", "rest.sums.1", "rest.many.0", "grad:x", "grad:a.weight", "grad:a.bias"}
    assert good["passed"] and {one["name"] for one in good["outputs"]} == names
    assert all(one["rule"] == "oracle" and len(one["max_abs_of_runs"]) == 3 for one in good["outputs"])
    verdicts = {one["name"]: one["judgement"] for one in bad["outputs"]}
    assert not bad["passed"] and verdicts.pop("first") == "fail" and set(verdicts.values()) == {"pass"}
    first = bad["outputs"][0]
    assert "legal rounding" in first["reason"] and 0 < first["metrics"]["max_abs"] < 0.01
    (folder,) = (tmp_path / "lab").iterdir()
    for one in bad["outputs"]:
        assert all((folder / name).read_bytes().startswith(b"\x89PNG") for name in one["pictures"])
    assert json.loads((folder / "diff.json").read_text())["outputs"] == bad["outputs"]
    assert not broken["passed"] and "no such device" in broken["summary"]


def test_what_is_wrong_with_one_output_does_not_stop_the_others(tmp_path: Path) -> None:
    code = """
def model(x):
    return {"a": x + 1, "b": x * 2, "c": x / 0}
def reshaped(graph, example):
    def run(*args):
        a, b, c = graph(*args)
        return [a.reshape(-1), b, c.clone().index_fill(0, torch.tensor([0]), 7.0)]
    return run
report = KernelDiffHarness(model, (torch.tensor([[1.0, 2.0], [-3.0, 0.0]]),), test_backend=reshaped).compare()
print(report.to_json().replace("\\n", " "))
"""
    report = _run(code, tmp_path)
    found = {one["name"]: one for one in report["outputs"]}
    assert {name: one["judgement"] for name, one in found.items()} == {"a": "fail", "b": "pass", "c": "fail"}
    assert found["c"]["metrics"]["nonfinite_mismatched"] == 2
    assert found["c"]["metrics"]["inf"] == [1, 3] and found["c"]["metrics"]["nan"] == [1, 1]


def test_a_hugging_face_model_with_a_dict_of_inputs(tmp_path: Path) -> None:
    """Its result is a ModelOutput, with the states of all layers in a tuple."""
    code = """
import transformers
config = transformers.BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=32, max_position_embeddings=16, output_hidden_states=True)
torch.manual_seed(0)
model = transformers.BertModel(config).eval()
inputs = {"input_ids": torch.arange(8).reshape(1, 8), "attention_mask": torch.ones(1, 8, dtype=torch.int64)}
assert isinstance(model(**inputs), transformers.utils.ModelOutput)
report = KernelDiffHarness(model, inputs, test_backend="aot_eager").compare()
print(report.to_json().replace("\\n", " "))
"""
    report = _run(code, tmp_path)
    names = [one["name"] for one in report["outputs"]]
    assert names == ["last_hidden_state", "pooler_output", *(f"hidden_states.{layer}" for layer in range(3))]
    assert report["passed"] and {one["rule"] for one in report["outputs"]} == {"oracle"}


def test_an_oracle_that_takes_longer_than_one_waits_leaves_it_to_tolerances(tmp_path: Path) -> None:
    """It plays the model in float64 again and again: of a big one there must be more to show than a time-out."""
    code = """
def model(x):
    return torch.softmax(x, -1)
def off(graph, example):
    return lambda *args: [graph(*args)[0] * (1 + 2e-6)]
x = torch.linspace(-1, 1, 32).reshape(4, 8)
print(KernelDiffHarness(model, (x,), test_backend=off, patience=0.0).compare().to_json().replace("\\n", " "))
"""
    report = _run(code, tmp_path)
    assert report["outputs"][0]["rule"] == "tolerance" and report["outputs"][0]["metrics"]["max_abs"] > 0
    assert any("it takes too long" in note for note in report["notes"])


def test_what_the_oracle_knows_without_a_run_too_many_stands_after_the_deadline(tmp_path: Path) -> None:
    """Else tolerances would decide what it calls inconclusive: that all of it is NaN, or left open."""
    code = """
def model(x):
    return torch.log(x)
x = torch.full((4,), -1.0)
print(KernelDiffHarness(model, (x,), test_backend="aot_eager", patience=0.0).compare().to_json().replace("\\n", " "))
"""
    report = _run(code, tmp_path)
    (output,) = report["outputs"]
    assert (output["rule"], output["judgement"]) == ("oracle", "inconclusive")


def test_large_outputs_are_compared_in_little_memory(tmp_path: Path) -> None:
    """Two tensors of 256 MB: the comparison takes a small part of that, and says which rule judged."""
    assert _memory(1 << 26, tmp_path) < 96 << 20


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_four_gigabytes_are_compared_in_less_than_one_and_a_half_more(tmp_path: Path) -> None:
    import psutil

    if psutil.virtual_memory().available < 12 << 30:
        pytest.skip("needs 12 GB of free memory")
    assert _memory(1 << 30, tmp_path) < 1.5 * (1 << 30)


def _memory(elements: int, folder: Path) -> int:
    """Bytes above the two tensors at the peak of their comparison."""
    code = f"""
def model(x):
    return x.expand({elements}).clone()
def off(graph, example):
    def run(*args):
        (out,) = graph(*args)
        out[12345] += 1
        return [out]
    return run
x = torch.ones(1)
KernelDiffHarness(lambda x: x + 1, (x,), test_backend="aot_eager").compare()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
report = KernelDiffHarness(model, (x,), test_backend=off).compare()
above = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before - 2 * 4 * {elements}
(one,) = report.outputs
assert one.rule == "tolerance" and one.judgement == "fail" and one.metrics.worst == (12345,), one
assert one.metrics.mismatched == 1 and "too much" in report.notes[0]
print(above)
"""
    return int(_run(code, folder, 1700))
