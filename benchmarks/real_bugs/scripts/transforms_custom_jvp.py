# A clamped square root with a derivative of its own for forward mode.
import torch


class SafeSqrt(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return torch.sqrt(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(output)

    @staticmethod
    def jvp(ctx, dx):
        (root,) = ctx.saved_tensors
        return dx / (2 * root.clamp(min=0.5))


@torch.compile(backend="aot_eager")
def slope(x, dx):
    return torch.func.jvp(SafeSqrt.apply, (x,), (dx,))[1]


print(slope(torch.tensor([0.0, 0.01, 4.0]), torch.ones(3)))
