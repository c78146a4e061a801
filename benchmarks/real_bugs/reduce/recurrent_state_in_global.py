# A recurrent network whose state is kept in one global record. Only the first step has an effect.
from dataclasses import dataclass

import torch


@dataclass
class Record:
    hidden: torch.Tensor


@dataclass
class Weights:
    into: torch.Tensor
    across: torch.Tensor
    out: torch.Tensor


def make_weights(inputs, hidden):
    def ramp(rows, columns, scale):
        return torch.cos(torch.arange(rows * columns, dtype=torch.float32)).reshape(rows, columns) * scale

    return Weights(ramp(inputs, hidden, 0.7), ramp(hidden, hidden, 0.3), ramp(hidden, 1, 1.0))


weights = make_weights(2, 3)
record = Record(torch.zeros(2, 3))


@torch.compiler.nested_compile_region
def cell():
    pre = record.hidden @ weights.across + 0.5
    gate = torch.sigmoid(pre)
    return gate * torch.tanh(pre) + (1 - gate) * record.hidden


def readout(hidden):
    return (hidden @ weights.out).squeeze(-1)


def unroll(start, steps):
    global record
    hidden = start
    outputs = []
    for _ in range(steps):
        record = Record(hidden)
        hidden = cell()
        outputs.append(readout(hidden))
    return torch.stack(outputs), hidden


def make_start(batch):
    return torch.sin(torch.arange(batch * 2, dtype=torch.float32)).reshape(batch, 2) @ weights.into


compiled = torch.compile(unroll, backend="aot_eager", fullgraph=True)
outputs, hidden = compiled(make_start(2), 4)
for row in outputs.tolist():
    print([round(v, 4) for v in row])
print([round(v, 3) for v in hidden[0].tolist()])
