"""Convolutional networks of our own: those that transformers lacks."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

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


class BasicBlock(nn.Module):
    """Two convolutions around which the input goes, by a projection where its size changes."""

    def __init__(self, narrow: int, wide: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(narrow, wide, 3, stride, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(),
            nn.Conv2d(wide, wide, 3, 1, 1, bias=False), nn.BatchNorm2d(wide),
        )  # fmt: skip
        changes = stride != 1 or narrow != wide
        self.around: nn.Module = (
            nn.Sequential(nn.Conv2d(narrow, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))
            if changes
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.around(x) + self.layers(x))


class ResNet18(nn.Module):
    """He et al. 2015: four stages of two basic blocks, each stage twice as wide as the one before it."""

    def __init__(self, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        stages: list[nn.Module] = []
        for stage in range(4):
            wide = width << stage
            narrow = wide if stage == 0 else wide // 2
            stages += [BasicBlock(narrow, wide, 1 if stage == 0 else 2), BasicBlock(wide, wide, 1)]
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(width << 3, classes)

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.head(self.stages(self.stem(pixel_values)).mean((2, 3)))


class SegmentationUNet(nn.Module):
    """Ronneberger et al. 2015: convolutions without padding, so that maps of the way down are cropped on the way up."""

    def __init__(self, width: int = 64, channels: int = 1, classes: int = 2) -> None:
        super().__init__()
        widths = [width << level for level in range(5)]
        self.down = nn.ModuleList([self._pair(n, w) for n, w in zip([channels, *widths], widths, strict=False)])
        upward = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.grow = nn.ModuleList([nn.ConvTranspose2d(wide, narrow, 2, 2) for wide, narrow in upward])
        self.up = nn.ModuleList([self._pair(wide, narrow) for wide, narrow in upward])
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _pair(narrow: int, wide: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(narrow, wide, 3), nn.ReLU(), nn.Conv2d(wide, wide, 3), nn.ReLU())

    def forward(self, pixel_values: Tensor) -> Tensor:
        maps = []
        x = pixel_values
        for level, layers in enumerate(self.down):
            x = layers(x if level == 0 else functional.max_pool2d(x, 2))
            maps.append(x)
        for grow, layers, before in zip(self.grow, self.up, maps[-2::-1], strict=True):
            x = grow(x)
            edge = (before.shape[-1] - x.shape[-1]) // 2
            x = layers(torch.cat([before[..., edge : edge + x.shape[-2], edge : edge + x.shape[-1]], x], dim=1))
        return self.head(x)


def resnet_18(*, batch: int = 1) -> Model:
    """The real thing: 11.7 million weights, pictures of 224x224."""
    return Model(initialise(ResNet18()), {"pixel_values": floats("pixel_values", batch, 3, 224, 224)})


def resnet_18_narrow() -> Model:
    return Model(initialise(ResNet18(8, 10)), {"pixel_values": floats("pixel_values", 2, 3, 64, 64)})


def unet_2015(*, batch: int = 1, size: int = 572) -> Model:
    """The real thing: 31 million weights, tiles of 572x572 of which 388x388 are answered."""
    return Model(initialise(SegmentationUNet()), {"pixel_values": floats("pixel_values", batch, 1, size, size)})


def unet_2015_narrow() -> Model:
    """The smallest tile that convolutions without padding leave something of."""
    return Model(initialise(SegmentationUNet(4)), {"pixel_values": floats("pixel_values", 1, 1, 188, 188)})


def densenet() -> Model:
    return Model(initialise(DenseNet()), {"pixel_values": floats("pixel_values", 2, 3, 32, 32)})


def mobilenet_v3() -> Model:
    return Model(initialise(MobileNetV3()), {"pixel_values": floats("pixel_values", 2, 3, 48, 48)})
