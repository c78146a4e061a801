"""A residual block as in ResNet: two convolutions, a projected shortcut, and an addition that compilers fuse."""

import torch
from torch import nn


class ResNetBlock(nn.Module):
    def __init__(self, narrow=8, wide=16):
        super().__init__()
        self.conv1 = nn.Conv2d(narrow, wide, 3, stride=2, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(wide)
        self.conv2 = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(wide)
        self.shortcut = nn.Sequential(nn.Conv2d(narrow, wide, 1, stride=2, bias=False), nn.BatchNorm2d(wide))

    def forward(self, x):
        inner = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


def program(dtype):
    model = ResNetBlock()
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):  # fresh statistics are 0 and 1: folding them would prove nothing
            layer.running_mean.normal_(0.0, 0.2)
            layer.running_var.uniform_(0.5, 2.0)
    return model.to(dtype).eval(), (torch.randn(2, 8, 12, 12).to(dtype),)


def float32():
    return program(torch.float32)


def float64():
    return program(torch.float64)


def float16():
    return program(torch.float16)


def bfloat16():
    return program(torch.bfloat16)
