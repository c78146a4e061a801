# A length is read from a tensor.
import torch
import torch._dynamo.config

torch._dynamo.config.capture_scalar_outputs = True


@torch.compile
def prefix(x, n):
    length = n.item()
    torch._check(length >= 0)
    torch._check(length <= 6)
    return x * length, torch.full((2,), float(length))


for n in (2, 5):
    print(prefix(torch.ones(2), torch.tensor(n)))
