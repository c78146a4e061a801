import torch

increment = torch.compile(lambda x: x + 1, backend="aot_eager")
for _ in range(3):
    increment(torch.ones(2))
    print("a long line of text " * 50_000)
