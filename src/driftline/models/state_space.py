"""Mamba (Gu and Dao 2023) written out: selective state spaces whose recurrence is a parallel scan.

The one of transformers walks from token to token, which a compiler unrolls: a graph as long as the text. Here the scan
doubles its reach with each step, so that a text of 64 tokens takes six.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from driftline.models.seeded import initialise, integers, noise, shortened
from driftline.models.wrappers import Model


def scanned(decay: Tensor, update: Tensor) -> Tensor:
    """The states h[t] = decay[t] * h[t - 1] + update[t] along dimension 1."""
    reach = 1
    while reach < decay.shape[1]:
        later = update[:, reach:] + decay[:, reach:] * update[:, :-reach]
        update = torch.cat([update[:, :reach], later], dim=1)
        decay = torch.cat([decay[:, :reach], decay[:, reach:] * decay[:, :-reach]], dim=1)
        reach *= 2
    return update


class StateSpaceBlock(nn.Module):
    """A convolution over time, then a recurrence whose step, input and output depend on the token; gated."""

    def __init__(self, width: int, states: int, kernel: int = 4, expand: int = 2) -> None:
        super().__init__()
        inner, self.states = expand * width, states
        self.rank = max(width // 16, 1)
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.enter = nn.Linear(width, 2 * inner, bias=False)
        self.mix = nn.Conv1d(inner, inner, kernel, groups=inner, padding=kernel - 1)
        self.select = nn.Linear(inner, self.rank + 2 * states, bias=False)
        self.step = nn.Linear(self.rank, inner)
        self.A_log = nn.Parameter(torch.empty(inner, states))
        self.D = nn.Parameter(torch.empty(inner))
        self.leave = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        inner, gate = self.enter(self.norm(x)).chunk(2, dim=-1)
        inner = functional.silu(self.mix(inner.transpose(1, 2))[..., :length].transpose(1, 2))
        rank, into, out = self.select(inner).split([self.rank, self.states, self.states], dim=-1)
        step = functional.softplus(self.step(rank))
        decay = torch.exp(step[..., None] * -torch.exp(self.A_log))
        state = scanned(decay, (step * inner)[..., None] * into[:, :, None, :])
        answer = (state * out[:, :, None, :]).sum(-1) + self.D * inner
        return x + self.leave(answer * functional.silu(gate))


class StateSpaceModel(nn.Module):
    """A language model of such blocks; its head shares the table of words."""

    def __init__(self, width: int, layers: int, states: int, vocabulary: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(StateSpaceBlock(width, states) for _ in range(layers)))
        self.norm = nn.RMSNorm(width, eps=1e-5)

    def forward(self, input_ids: Tensor) -> dict[str, Tensor]:
        return {"logits": functional.linear(self.norm(self.blocks(self.embed(input_ids))), self.embed.weight)}


def _model(width: int, layers: int, states: int, vocabulary: int, batch: int, length: int) -> Model:
    draws = {
        "A_log": lambda name, shape: shortened(np.log(np.tile(np.arange(1, shape[1] + 1), (shape[0], 1)))),
        "step.bias": lambda name, shape: noise(name, shape, 0.5, mean=-4.0),  # time steps of about 0.02
    }
    model = initialise(StateSpaceModel(width, layers, states, vocabulary), draws)
    return Model(model, {"input_ids": integers("input_ids", batch, length, low=4, high=vocabulary)})


def state_space() -> Model:
    return _model(width=32, layers=2, states=8, vocabulary=211, batch=2, length=12)


def mamba_130m(*, batch: int = 1, length: int = 64) -> Model:
    """The real thing: 24 layers, 768 wide, 16 states, 129 million weights."""
    return _model(width=768, layers=24, states=16, vocabulary=50280, batch=batch, length=length)
