import torch

compiled = torch.compile(lambda x: x + 1)
compiled(torch.ones(size))  # noqa: F821
