"""The parts of a diffusion model: the U-Net that removes noise, and the decoder from latents to a picture."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from driftline.models.seeded import floats, initialise, shortened
from driftline.models.wrappers import Model


class Residual(nn.Module):
    """Two convolutions with group norms, told the time by an addition."""

    def __init__(self, narrow: int, wide: int, time: int = 0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, narrow), nn.GroupNorm(4, wide)
        self.conv1 = nn.Conv2d(narrow, wide, 3, padding=1)
        self.conv2 = nn.Conv2d(wide, wide, 3, padding=1)
        self.time = nn.Linear(time, wide) if time else None
        self.skip = nn.Conv2d(narrow, wide, 1) if narrow != wide else nn.Identity()

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        inner = self.conv1(functional.silu(self.norm1(x)))
        if self.time is not None and time is not None:
            inner = inner + self.time(functional.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(functional.silu(self.norm2(inner)))


class Attention(nn.Module):
    """Over the places of a picture, or from them to the words of a text."""

    def __init__(self, width: int, context: int = 0, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(4, width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(context or width, width, bias=False)
        self.value = nn.Linear(context or width, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        batch, width, high, wide = x.shape
        places = self.norm(x).flatten(2).transpose(1, 2)
        source = places if context is None else context
        query, key, value = (self._split(t) for t in (self.query(places), self.key(source), self.value(source)))
        mixed = functional.scaled_dot_product_attention(query, key, value)
        mixed = self.out(mixed.transpose(1, 2).reshape(batch, high * wide, width))
        return x + mixed.transpose(1, 2).reshape(batch, width, high, wide)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class UNet(nn.Module):
    def __init__(self, width: int = 16, context: int = 24) -> None:
        super().__init__()
        time = 4 * width
        steps = shortened(np.exp(-np.log(10000.0) * np.arange(width // 2) / (width // 2)))
        self.register_buffer("frequencies", torch.from_numpy(steps))
        self.embed = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(4, width, 3, padding=1)
        self.down1 = Residual(width, width, time)
        self.shrink = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.down2 = Residual(width, 2 * width, time)
        self.itself, self.words = Attention(2 * width), Attention(2 * width, context)
        self.middle = Residual(2 * width, 2 * width, time)
        self.up2 = Residual(4 * width, width, time)
        self.grow = nn.Conv2d(width, width, 3, padding=1)
        self.up1 = Residual(2 * width, width, time)
        self.leave = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 4, 3, padding=1))

    def forward(self, sample: Tensor, timestep: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        angles = timestep[:, None].to(sample.dtype) * self.frequencies
        time = self.embed(torch.cat([angles.cos(), angles.sin()], dim=-1))
        first = self.down1(self.enter(sample), time)
        second = self.down2(self.shrink(first), time)
        deep = self.words(self.itself(second), encoder_hidden_states)
        deep = self.up2(torch.cat([self.middle(deep, time), second], dim=1), time)
        deep = self.grow(functional.interpolate(deep, scale_factor=2.0, mode="nearest"))
        return self.leave(self.up1(torch.cat([deep, first], dim=1), time))


class VaeDecoder(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.enter = nn.Conv2d(4, 2 * width, 3, padding=1)
        self.middle = nn.Sequential(Residual(2 * width, 2 * width), Attention(2 * width), Residual(2 * width, width))
        self.grow1, self.block1 = nn.Conv2d(width, width, 3, padding=1), Residual(width, width)
        self.grow2 = nn.ConvTranspose2d(width, width, 4, stride=2, padding=1)
        self.leave = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, latent: Tensor) -> Tensor:
        x = self.middle(self.enter(latent / 0.18215))
        x = self.block1(self.grow1(functional.interpolate(x, scale_factor=2.0, mode="nearest")))
        x = functional.interpolate(self.grow2(x), scale_factor=2.0, mode="bilinear", align_corners=False)
        return (self.leave(x) / 2 + 0.5).clamp(0, 1)


def unet() -> Model:
    inputs = {
        "sample": floats("sample", 2, 4, 16, 16),
        "timestep": torch.tensor([17, 801]),
        "encoder_hidden_states": floats("encoder_hidden_states", 2, 5, 24),
    }
    return Model(initialise(UNet()), inputs)


def vae_decoder() -> Model:
    return Model(initialise(VaeDecoder()), {"latent": floats("latent", 1, 4, 8, 8, std=0.2)})
