"""Convolutional networks of our own: those that transformers lacks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from driftline.models.seeded import floats, initialise
from driftline.models.wrappers import Model


class DenseLayer(nn.Module):
    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layers(x)], dim=1)


class DenseNet(nn.Module):
    """Every layer sees the results of all before it."""

    def __init__(self, growth: int = 8, blocks: tuple[int, ...] = (2, 3, 2)) -> None:
        super().__init__()
        width = 16
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False)]
        for number, depth in enumerate(blocks):
            for _ in range(depth):
                layers.append(DenseLayer(width, growth))
                width += growth
            if number + 1 < len(blocks):
                layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1), nn.AvgPool2d(2)]
                width //= 2
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(width, 10)

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.head(self.features(pixel_values).flatten(1))


class Squeeze(nn.Module):
    """Squeeze and excitation with a hard sigmoid."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width // 4, 1), nn.ReLU(), nn.Conv2d(width // 4, width, 1),
            nn.Hardsigmoid(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


class Bottleneck(nn.Module):
    def __init__(self, narrow: int, wide: int, out: int, kernel: int, stride: int, hard: bool) -> None:
        super().__init__()
        act = nn.Hardswish if hard else nn.ReLU
        self.residual = stride == 1 and narrow == out
        self.layers = nn.Sequential(
            nn.Conv2d(narrow, wide, 1, bias=False), nn.BatchNorm2d(wide), act(),
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False), nn.BatchNorm2d(wide), act(),
            Squeeze(wide), nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV3(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(),
            Bottleneck(8, 16, 8, 3, 1, False), Bottleneck(8, 24, 16, 3, 2, False), Bottleneck(16, 48, 16, 5, 1, True),
            Bottleneck(16, 64, 24, 5, 2, True), nn.Conv2d(24, 64, 1, bias=False), nn.BatchNorm2d(64), nn.Hardswish(),
            nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Linear(64, 48), nn.Hardswish(), nn.Linear(48, 10))

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.head(self.features(pixel_values).flatten(1))


def densenet() -> Model:
    return Model(initialise(DenseNet()), {"pixel_values": floats("pixel_values", 2, 3, 32, 32)})


def mobilenet_v3() -> Model:
    return Model(initialise(MobileNetV3()), {"pixel_values": floats("pixel_values", 2, 3, 48, 48)})
