"""An LSTM cell unrolled over four steps: rounding errors travel through the state."""

import torch
from torch import nn


class UnrolledLstm(nn.Module):
    def __init__(self, width=16, hidden=24):
        super().__init__()
        self.cell = nn.LSTMCell(width, hidden)

    def forward(self, steps, hidden, memory):
        for step in steps.unbind(0):
            hidden, memory = self.cell(step, (hidden, memory))
        return hidden, memory


def program(dtype):
    inputs = (torch.randn(4, 3, 16), torch.randn(3, 24), torch.randn(3, 24))
    return UnrolledLstm().to(dtype).eval(), tuple(tensor.to(dtype) for tensor in inputs)


def float32():
    return program(torch.float32)


def float64():
    return program(torch.float64)


def float16():
    return program(torch.float16)


def bfloat16():
    return program(torch.bfloat16)
