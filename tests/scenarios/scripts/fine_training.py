import broken_backends  # noqa: F401
import torch

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
compiled = torch.compile(model, backend="rounds_otherwise")
x, y = torch.randn(8, 6), torch.randn(8, 2)
for _ in range(6):
    optimizer.zero_grad()
    loss = (compiled(x) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
