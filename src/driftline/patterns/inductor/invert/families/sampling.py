"""Sampling by probabilities, implemented as a race between exponential variables."""

from __future__ import annotations

import torch

from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family
from driftline.patterns.inductor.invert.wish import Wish


@family("truediv")
def probabilities_over_times(call: PatternCall) -> None:
    bench = call.bench
    logits = call.inverter.leaf(Wish((call.sizes.rows, call.sizes.columns)))
    call.found["a"] = bench.call("call_function", torch.nn.functional.softmax, (logits,), {"dim": -1})
    empty = bench.call("call_function", torch.empty_like, (logits,), {})
    call.found["b"] = bench.call("call_method", "exponential_", (empty, 1.0), {})
