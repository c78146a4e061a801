# Quantised row vectors times quantised matrices, batched.
import torch


@torch.compile
def project(q, weight):
    return torch.matmul(q, weight)


q = torch.full((2, 1, 4), 50, dtype=torch.int8)
weight = torch.ones(2, 4, 3, dtype=torch.int8)
y = project(q, weight)
print(y.dtype, y.flatten().tolist())
