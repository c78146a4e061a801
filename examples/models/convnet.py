"""Convolution, batch normalisation, relu, pooling and a linear head: what compilers fold and fuse most eagerly."""

import torch
from torch import nn


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.head = nn.Linear(16, 10)

    def forward(self, image):
        return self.head(self.features(image).flatten(1))


def program(dtype):
    model = ConvNet()
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):  # fresh statistics are 0 and 1: folding them would prove nothing
            layer.running_mean.normal_(0.0, 0.2)
            layer.running_var.uniform_(0.5, 2.0)
    return model.to(dtype).eval(), (torch.randn(2, 3, 16, 16).to(dtype),)


def float32():
    return program(torch.float32)


def float64():
    return program(torch.float64)


def float16():
    return program(torch.float16)


def bfloat16():
    return program(torch.bfloat16)
