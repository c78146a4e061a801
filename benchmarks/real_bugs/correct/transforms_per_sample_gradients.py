# Gradients per sample of a linear model.
import torch


def loss(w, x, y):
    return (x @ w - y) ** 2


per_sample = torch.compile(torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0)))
x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
print(per_sample(torch.tensor([1.0, -1.0]), x, torch.tensor([0.0, 1.0, 2.0])))
