# Simulates storage in float16: there and back.
import torch


@torch.compile
def stored(x):
    return x.to(torch.float16).to(torch.float32)


x = torch.tensor([0.1, 1 / 3, 1000.3, 65519.0])
y = stored(x)
print([f"{v:.7g}" for v in y.tolist()])
