import broken_backends  # noqa: F401
import torch

scale = torch.compile(lambda x: x * 3, backend="leaves_gradients_off")
x = torch.ones(2, requires_grad=True)
scale(x)
print((x * 2).requires_grad)
