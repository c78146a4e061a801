"""A layer of an LSTM, as Inductor's decomposition leaves it."""

from __future__ import annotations

from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family
from driftline.patterns.inductor.invert.wish import Wish

_LSTM = 2  # its number among the modes of recurrent layers


@family("mkldnn_rnn_layer")
def mkldnn_rnn_layer(call: PatternCall) -> None:
    steps, batch, features, hidden = 4, 2, 8, 8
    call.tensor("input", Wish((steps, batch, features)))
    weights = {"weight0": (4 * hidden, features), "weight1": (4 * hidden, hidden)}
    for name, shape in {**weights, "weight2": (4 * hidden,), "weight3": (4 * hidden,)}.items():
        call.tensor(name, Wish(shape, constant=True))
    call.tensor("hx_", Wish((1, batch, hidden)))
    call.tensor("cx_", Wish((1, batch, hidden)))
    values = {
        "reverse": False, "batch_sizes": [], "mode": _LSTM, "hidden_size": hidden, "num_layers": 1, "has_biases": True,
        "bidirectional": False, "batch_first": False, "train": False,
    }  # fmt: skip
    for name, value in values.items():
        call.value(name, value)
