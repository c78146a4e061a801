"""Checks of models as people have them: token ids and masks, nested arguments, a cache, several sizes, specials."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from driftline.campaign.check.session import check_program
from driftline.checking.checker import Checker
from driftline.checking.open import LoadedProgram, open_program
from driftline.checking.result import CheckResult
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.verdict import Judgement
from driftline.inputs.sizes import Sizes
from driftline.store import Store

MODELS = '''
from dataclasses import dataclass

import torch
from torch import nn


class Layer:
    def __init__(self, keys, values):
        self.keys, self.values = keys, values


class CacheLayerMixin(Layer):
    """As in transformers."""


class Cache:
    def __init__(self, layers):
        self.layers = layers


@dataclass
class Result:
    logits: torch.Tensor
    past: Cache


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.project, self.head = nn.Embedding(40, 8), nn.Linear(8, 24), nn.Linear(8, 40)

    def forward(self, input_ids, attention_mask, past=None, scale=1.0):
        q, k, v = self.project(self.embed(input_ids)).chunk(3, -1)
        if past is not None:
            layer = past.layers[0]
            layer.keys, layer.values = torch.cat([layer.keys, k], 1), torch.cat([layer.values, v], 1)
            k, v = layer.keys, layer.values
        scores = scale * (q @ k.transpose(-1, -2))
        scores = scores.masked_fill(~attention_mask[:, None, :].bool(), float("-inf"))
        return Result(self.head(torch.softmax(scores, -1) @ v), past)


def cached():
    torch.manual_seed(0)
    cache = Cache([CacheLayerMixin(torch.randn(2, 4, 8), torch.randn(2, 4, 8))])
    inputs = {"input_ids": torch.tensor([[3], [39]]), "attention_mask": torch.ones(2, 5, dtype=torch.long)}
    return Decoder().eval(), {**inputs, "past": cache, "scale": 0.3}


class Nested(nn.Module):
    def forward(self, batch, pairs, *, flag=True):
        total = sum(a @ b for a, b in pairs) + batch["x"]
        return {"total": torch.relu(total) if flag else total, "more": [total.mean(), (batch["x"],)]}


def nested():
    pair = (torch.ones(2, 3), torch.ones(3, 4))
    return Nested(), ({"x": torch.ones(2, 4)}, [pair, pair])


class Deep(nn.Module):
    """Every result depends on all of a sample."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(m for _ in range(25) for m in (nn.Linear(6, 6), nn.Tanh())))

    def forward(self, x):
        return self.layers(x) + x.mean(1, keepdim=True)


def deep():
    torch.manual_seed(0)
    return Deep().eval(), (torch.randn(2, 5, 6),)


def mean():
    return (lambda x: x.mean()), (torch.ones(64),)


if __name__ == "__main__":
    model, (batch, pairs) = nested()
    torch.export.save(torch.export.export(model, (batch, pairs), {"flag": False}), "nested.pt2")
'''


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "models.py"
    path.write_text(MODELS)
    return path


class Bench:
    def __init__(self, checker: Checker, store: Path) -> None:
        self.checker, self.store = checker, store

    def open(self, text: str) -> LoadedProgram:
        return open_program(text, self.checker.pool, CheckOptions())

    def check(
        self, opened: LoadedProgram, targets: str, inputs: str = "random", samples: int = 1, sizes: Sizes | None = None
    ) -> CheckResult:
        with Store.create(self.store) as store:
            return check_program(
                self.checker,
                store,
                opened,
                targets=[Target.parse(t) for t in targets.split(",")],
                inputs=inputs,
                samples=samples,
                sizes=sizes or Sizes(),
                options=CheckOptions(),
            )


@pytest.fixture
def bench(checker: Checker, store_folder: Path) -> Bench:
    return Bench(checker, store_folder)


def names(opened: LoadedProgram) -> list[str]:
    return [spec.name for spec in opened.program.inputs]


def passes(result: CheckResult) -> bool:
    told = {str(row.target): (row.verdict.judgement, row.verdict.reason) for row in result.results}
    assert all(judgement is Judgement.PASS for judgement, _ in told.values()), told
    return True


def test_a_decoder_is_called_with_its_cache(models: Path, bench: Bench) -> None:
    opened = bench.open(f"{models}:cached")
    assert [spec.name for spec in opened.program.inputs] == [
        "input_ids",
        "attention_mask",
        "past.0.key",
        "past.0.value",
    ]
    assert opened.known.rules == {"input_ids": "index:40"}
    result = bench.check(opened, "eager,inductor,onnxruntime", samples=2)
    assert passes(result)
    assert all(array["attention_mask"].any(axis=-1).all() for array in (s.arrays for s in result.outcome.case.samples))


def test_nested_arguments_and_results_are_flattened_and_rebuilt(models: Path, bench: Bench) -> None:
    opened = bench.open(f"{models}:nested")
    assert [spec.name for spec in opened.program.inputs] == [
        "batch.x",
        "pairs.0.0",
        "pairs.0.1",
        "pairs.1.0",
        "pairs.1.1",
    ]
    result = bench.check(opened, "eager,onnxruntime")
    arrays = result.outcome.case.samples[0].arrays
    assert (arrays["pairs.0.0"] == arrays["pairs.1.0"]).all(), "one tensor given twice is one tensor"
    assert passes(result)


def test_an_archive_keeps_its_nested_inputs_and_keywords(models: Path, bench: Bench, tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(models)], cwd=tmp_path, check=True, capture_output=True)
    opened = bench.open(str(tmp_path / "nested.pt2"))
    assert names(opened)[:2] == ["batch.x", "pairs.0.0"]
    assert passes(bench.check(opened, "eager,onnxruntime"))


def test_one_check_runs_a_program_at_several_sizes(models: Path, bench: Bench) -> None:
    sizes = Sizes.parse([], ["x=2x5x6/3x4x6/1x7x6"])
    result = bench.check(bench.open(f"{models}:deep"), "eager,onnxruntime,tvm,torchscript", sizes=sizes)
    assert [sample.arrays["x"].shape for sample in result.outcome.case.samples] == [(2, 5, 6), (3, 4, 6), (1, 7, 6)]
    assert passes(result)


def test_specials_leave_something_to_compare_in_a_model(models: Path, bench: Bench) -> None:
    result = bench.check(bench.open(f"{models}:deep"), "eager", "specials", samples=3)
    finite = [np.isfinite(sample.native["output"]).mean() for sample in result.outcome.reference.samples]
    assert min(finite) >= 0.2
    assert any(not np.isfinite(sample.arrays["x"]).all() for sample in result.outcome.case.samples)
    assert passes(result)


def test_a_small_program_gets_the_strong_specials_and_milder_ones_where_all_is_nan(models: Path, bench: Bench) -> None:
    result = bench.check(bench.open(f"{models}:mean"), "eager", "specials")
    outputs = [sample.native["output"] for sample in result.outcome.reference.samples]
    assert np.isnan(outputs[0]) and np.isfinite(outputs[-1])
    assert passes(result)


def test_python_takes_sizes_too(store_folder: Path) -> None:
    import torch

    import driftline

    shapes = {"a": [(2, 3), (5, 3)]}
    result = driftline.check(
        lambda a, b: a @ b, (torch.ones(4, 3), torch.ones(3, 2)), targets=["eager"], shapes=shapes, store=store_folder
    )
    assert [sample.arrays["a"].shape for sample in result.outcome.case.samples] == [(2, 3), (5, 3)]
    assert passes(result)
    with pytest.raises(DriftlineError, match="axis 1 is always 3"):
        driftline.check(
            lambda a, b: a @ b, (torch.ones(4, 3), torch.ones(3, 2)), shapes={"a": (4, 4)}, store=store_folder
        )
