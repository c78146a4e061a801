import broken_backends  # noqa: F401
import torch


def f(x):
    return torch.softmax(x, -1).log()


x = torch.randn(4, 8)
expected = f(x)
got = torch.compile(f, backend="rounds_otherwise")(x)
print("largest difference", (expected - got).abs().max().item(), torch.equal(expected, got))
assert torch.equal(expected, got), "not the same bits"
