import torch

torch.compile(lambda x: x + 1, backend="aot_eager")
while True:
    pass
