import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad


print(torch.compile(torch.func.grad(F.apply), backend="aot_eager")(torch.tensor(1.0)))
