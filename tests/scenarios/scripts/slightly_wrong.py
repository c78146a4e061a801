import broken_backends  # noqa: F401
import torch

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
compiled = torch.compile(model, backend="off_by_a_thousandth")
print(compiled(torch.randn(4, 8)).shape)
