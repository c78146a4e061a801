import broken_backends  # noqa: F401
import torch

model = torch.nn.Linear(4, 2)
compiled = torch.compile(model, backend="halves_gradients")
loss = compiled(torch.randn(3, 4)).pow(2).sum()
loss.backward()
print(loss.item())
