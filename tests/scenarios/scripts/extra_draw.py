import broken_backends  # noqa: F401
import torch

scale = torch.compile(lambda x: x * 3, backend="draws_once_more")
scale(torch.ones(2))
print(torch.rand(2))
