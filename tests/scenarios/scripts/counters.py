"""Scenarios: functions that take `compile`. `broken_backends.py` beside this file has the faulty compilers."""

import broken_backends  # noqa: F401
import torch


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.history: list[float] = []
        self.scale = 1.0

    def forward(self, x):
        self.history.append(self.scale)
        return x * self.scale


def right(compile):
    model = Counter()
    step = compile(model)
    step(torch.ones(3))
    model.scale = 2.0
    step(torch.ones(3))
    assert model.history == [1.0, 2.0]


def stale(compile):
    double = compile(lambda x: x * 2, backend="forgets_updates")
    double(torch.ones(3))
    double(torch.zeros(3))


def two(compile, x):
    return compile(x)


if __name__ == "__main__":
    raise SystemExit("this file is no script")
