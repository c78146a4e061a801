import broken_backends  # noqa: F401
import torch


def model(x, w):
    return x + 1, x * w


compiled = torch.compile(model, backend="detaches_outputs", fullgraph=True)
w = torch.ones(3, requires_grad=True)
out = compiled(torch.ones(3), w)
out[1].sum().backward()
