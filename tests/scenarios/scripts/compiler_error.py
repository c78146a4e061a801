import broken_backends  # noqa: F401
import torch

print(torch.compile(lambda x: x + 1, backend="cannot_compile")(torch.ones(2)))
