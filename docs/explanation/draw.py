"""Draws the pictures of verdicts.md from real runs: `python docs/explanation/draw.py` (needs matplotlib)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import matplotlib
import ml_dtypes
import numpy as np
import torch

from driftline.backends._torch import as_arrays, flatten_tensors
from driftline.oracle.rule import judge_outputs
from driftline.oracle.shadow.task import play_shadow, read_answer
from driftline.oracle.shadow.torch.shadow import TorchShadow, record
from driftline.oracle.statistics import ELEMENT_LIMIT, POOLED_LIMIT, pooled

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "driftline"  # the same picture every time
from matplotlib import pyplot as plt  # noqa: E402

PICTURES = Path(__file__).parent / "pictures"


def answer_for(function: Any, *inputs: torch.Tensor, runs: int = 32) -> tuple[Any, Any]:
    with torch.no_grad():
        native = as_arrays(flatten_tensors(function(*inputs)))
        tape = record(lambda: flatten_tensors(function(*inputs)))
    with tempfile.TemporaryDirectory() as folder:
        return native, read_answer(play_shadow(TorchShadow(tape), runs, None, Path(folder)))


def sequential(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        total = total + a[:, k : k + 1] * b[k : k + 1]
    return total


def noise_and_error() -> None:
    """Errors of legal implementations and of buggy ones, in units of what rounding may do."""
    torch.manual_seed(0)
    a, b = torch.randn(64, 256), torch.randn(256, 64)
    native, answer = answer_for(torch.matmul, a, b)
    reference = answer.reference["output"]
    sigma = np.sqrt(np.mean((answer.samples["output"] - reference) ** 2, axis=0))
    wrong = {
        "eager": native["output"],
        "one term after the other": sequential(a, b).numpy(),
        "one term left out": (a[:, :-1] @ b[:-1]).numpy(),
        "TF32 factors": _tf32(a, b),
    }
    figure, axis = plt.subplots(figsize=(7, 3.2))
    edges = np.logspace(-3, 7, 90)
    for (label, output), colour in zip(wrong.items(), ("tab:green", "tab:olive", "tab:red", "tab:orange"), strict=True):
        axis.hist((np.abs(output - reference) / sigma).ravel(), edges, alpha=0.6, label=label, color=colour)
    axis.axvline(ELEMENT_LIMIT, color="black", linestyle="--")
    axis.text(ELEMENT_LIMIT * 1.2, axis.get_ylim()[1] * 0.9, f"wrong beyond {ELEMENT_LIMIT:g} sigma")
    axis.set_xscale("log")
    axis.set_xlabel("error of an element, in units of what legal rounding does to it (sigma)")
    axis.set_ylabel("elements")
    axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(PICTURES / "noise-and-error.svg", metadata={"Date": None})


def _tf32(a: torch.Tensor, b: torch.Tensor) -> Any:
    cut = [(t.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32) for t in (a, b)]
    return (cut[0] @ cut[1]).numpy()


def drift() -> None:
    """A drift of 0.01 % in bfloat16 is far below one rounding, but it adds up over inputs."""
    figure, axis = plt.subplots(figsize=(7, 3.2))
    for label, factor, colour in (("legal", 1.0, "tab:green"), ("all results 0.01 % too large", 1.0001, "tab:red")):
        totals, curve = [], []
        for seed in range(12):
            torch.manual_seed(seed)
            a, b = torch.randn(64, 64).bfloat16(), torch.randn(64, 64).bfloat16()
            native, answer = answer_for(torch.matmul, a, b, runs=16)
            exact = answer.reference["output"]
            other = sequential(a.float(), b.float()).double().numpy() if factor == 1.0 else exact * factor
            outputs = {"output": other.astype(ml_dtypes.bfloat16)}
            judged = judge_outputs(outputs, native, answer.reference, lambda *_, known=answer: known, thorough=True)
            totals.append(judged.totals)
            curve.append(pooled(totals)[0])
        axis.plot(range(1, 13), curve, marker="o", label=label, color=colour)
    axis.axhline(POOLED_LIMIT, color="black", linestyle="--")
    axis.set_xlabel("inputs pooled")
    axis.set_ylabel("drift, in sigma")
    axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(PICTURES / "pooled-drift.svg", metadata={"Date": None})


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    noise_and_error()
    drift()
