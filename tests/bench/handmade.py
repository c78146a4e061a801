"""Runs of the suite with numbers made up, for tests of what is made of them."""

from __future__ import annotations

import numpy as np

from driftline.bench.result import BenchModel, BenchRow, BenchRun, Clocked
from driftline.measure.estimate import median_of, ratio_of


def clocked(seconds: float, seed: int, rounds: int = 12) -> Clocked:
    drawn = tuple(float(t) for t in seconds * np.exp(np.random.default_rng(seed).normal(0.0, 0.01, rounds)))
    return Clocked(drawn, drawn)


def row(target: str, factor: float, seed: int = 0, **given: object) -> BenchRow:
    """`factor` times as fast as eager, which takes 10 ms."""
    eager, own = clocked(0.01, seed), clocked(0.01 / factor, seed + 1)
    made: dict[str, object] = {
        "compile_seconds": 2.0, "compile_cpu": 2.0, "run_peak": 100 << 20, "verdict": "pass", "graphs": 1,
        "wall": median_of(own.wall), "cpu": median_of(own.cpu), "speedup": ratio_of(eager.cpu, own.cpu),
        "rounds": own, "eager_rounds": eager,
        **given,
    }  # fmt: skip
    return BenchRow("bert", target, "2.13.0", **made)


def run(*rows: BenchRow, **given: object) -> BenchRun:
    made: dict[str, object] = {
        "made": "2026-01-01T00:00:00Z", "driftline": "0.1.0", "machine": "x86_64, 2 cores", "size": "small",
        "dtype": "float32", "repeat": 12, "seconds": 60.0, "seed": 0, "targets": tuple(r.target for r in rows),
        "models": (BenchModel("bert", "bert", "BERT of 2 layers"),), "rows": rows, "complete": True, **given,
    }  # fmt: skip
    return BenchRun(**made)
