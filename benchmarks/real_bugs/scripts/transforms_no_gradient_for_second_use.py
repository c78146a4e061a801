# The tensor comes in once as value and once as mere reference, which gets no gradient.
import torch


class Blend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, reference):
        return value * 2 - reference

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None


def step(x):
    h = x.sin()
    return Blend.apply(h, h).sum()


x = torch.linspace(0, 1, 3, requires_grad=True)
torch.compile(step, backend="aot_eager")(x).backward()
print(x.grad)
