# The forward accumulates into its own intermediate.
import torch


class Residual(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        y = x * w
        y += x
        return y

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * (w + 1), grad * x


@torch.compile(backend="aot_eager")
def layer(x, w):
    return Residual.apply(x, w).sum()


x = torch.ones(3, requires_grad=True)
w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
layer(x, w).backward()
print(x.grad)
print(w.grad)
