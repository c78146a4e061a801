"""State that travels through time: taggers with LSTM and GRU, and the state-space models that came back to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from driftline.models.seeded import initialise, integers, noise, shortened
from driftline.models.wrappers import Model, Named

VOCABULARY = 211


def mamba() -> Model:
    """Selective state spaces: a convolution over time, then a recurrence whose steps depend on the input."""
    config = transformers.MambaConfig(
        vocab_size=VOCABULARY, hidden_size=32, state_size=8, num_hidden_layers=2, conv_kernel=4, time_step_rank=4
    )
    draws = {"A_log": lambda name, shape: shortened(np.log(np.tile(np.arange(1, shape[1] + 1), (shape[0], 1))))}
    model = initialise(transformers.MambaForCausalLM(config), draws)
    return Model(Named(model, ("logits",), use_cache=False), {"input_ids": _tokens(7)})


def rwkv() -> Model:
    """Attention written as a recurrence with exponential decay, one step after another."""
    config = transformers.RwkvConfig(
        vocab_size=VOCABULARY, hidden_size=32, attention_hidden_size=32, num_hidden_layers=2, context_length=32
    )
    draws = {
        "time_decay": lambda name, shape: noise(name, shape, 0.8, mean=-2.0),
        "time_first": lambda name, shape: noise(name, shape, 0.3),
        "time_mix_key": _share,
        "time_mix_value": _share,
        "time_mix_receptance": _share,
    }
    model = initialise(transformers.RwkvForCausalLM(config), draws)
    return Model(Named(model, ("logits",), use_cache=False), {"input_ids": _tokens(6)})


def _share(name: str, shape: tuple[int, ...]) -> Any:
    return noise(name, shape, 0.2, mean=0.5)


class Tagger(nn.Module):
    """A label for each token, from a recurrent network that reads both ways."""

    def __init__(self, kind: Any, width: int = 24, hidden: int = 20, labels: int = 9) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.recur = kind(width, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * hidden, labels)

    def forward(self, input_ids: Tensor) -> dict[str, Tensor]:
        states, _ = self.recur(self.embed(input_ids))
        return {"scores": torch.log_softmax(self.head(states), dim=-1)}


def lstm_tagger() -> Model:
    return Model(initialise(Tagger(nn.LSTM)), {"input_ids": _tokens(10)})


def gru_tagger() -> Model:
    return Model(initialise(Tagger(nn.GRU)), {"input_ids": _tokens(10)})


def _tokens(length: int) -> Tensor:
    return integers("input_ids", 2, length, low=4, high=VOCABULARY)
