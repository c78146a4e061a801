# The function changes its argument in place and says so; the caller does not look at what it returns.
import torch


class DoubleInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@torch.compile(backend="aot_eager")
def model(w):
    h = torch.ones(2, 2) @ w
    DoubleInPlace.apply(h)
    return h.sum()


w = torch.eye(2, requires_grad=True)
loss = model(w)
loss.backward()
print(loss.item())
print(w.grad)
