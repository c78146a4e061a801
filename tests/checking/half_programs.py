"""Small models in half precision: what `test_precision.py` checks."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.attend(self.before(x)).chunk(3, -1)
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf"), dtype=x.dtype).triu(1)
        weights = torch.softmax(query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5 + mask, -1)
        x = x + self.out(weights @ value)
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


class Gpt(nn.Module):
    def __init__(self, width: int = 192, tokens: int = 50) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(16, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.blocks(self.tokens(ids) + self.places.weight)))
        return logits


def gpt() -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    return Gpt().half().eval(), (torch.randint(0, 50, (2, 16)),)


def gpt_in_float32() -> tuple[nn.Module, tuple[Tensor, ...]]:
    model, inputs = gpt()
    return model.float(), inputs


class Mixed(nn.Module):
    """Everything that the lazy compiler can do wrong."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width, eps=1e-3), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.softplus(self.linear(self.norm(x)))


def mixed() -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    return Mixed().half().eval(), (torch.randn(32, 64).half(),)


def tiny_doubles() -> tuple[object, tuple[Tensor]]:
    """Numbers that float32 holds, and numbers that are nothing in it."""
    x = torch.linspace(-0.5, -0.1, 64, dtype=torch.float64)
    x[::16] = -1e-300
    return torch.expm1, (x,)
