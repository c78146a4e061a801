import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x + 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def jvp(ctx, dx):
        return dx * 5


x = torch.tensor(1.0)
print(torch.compile(lambda a: torch.func.jvp(F.apply, (a,), (a,)), backend="aot_eager")(x))
