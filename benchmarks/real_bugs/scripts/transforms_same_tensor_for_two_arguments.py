# Self-interaction: a two-argument function called with one tensor twice.
import torch


class Interact(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b + 3 * a + b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * (b + 3), grad * (a + 1)


@torch.compile(backend="aot_eager")
def energy(x):
    return Interact.apply(x, x).sum()


x = torch.tensor([1.0, 2.0, -1.0], requires_grad=True)
energy(x).backward()
print(x.grad)
