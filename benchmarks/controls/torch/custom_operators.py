"""Custom operators through torch.library and autograd.Function."""

import numpy as np
import torch
from torch import Tensor, nn


def _x(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@torch.library.custom_op("ctrl_torch::numpy_sin", mutates_args=())
def numpy_sin(x: Tensor) -> Tensor:
    return torch.from_numpy(np.sin(x.detach().numpy()))


@numpy_sin.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("ctrl_torch::scaled_add", mutates_args=())
def scaled_add(x: Tensor, y: Tensor, alpha: float) -> Tensor:
    return x + alpha * y


@scaled_add.register_fake
def _(x, y, alpha):
    return torch.empty(torch.broadcast_shapes(x.shape, y.shape), dtype=x.dtype)


@torch.library.custom_op("ctrl_torch::bump_", mutates_args=("x",))
def bump_(x: Tensor, by: float) -> None:
    x.add_(by)


@torch.library.custom_op("ctrl_torch::split_sign", mutates_args=())
def split_sign(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.clamp(min=0), x.clamp(max=0)


@split_sign.register_fake
def _(x):
    return torch.empty_like(x), torch.empty_like(x)


@torch.library.custom_op("ctrl_torch::cube", mutates_args=())
def cube(x: Tensor) -> Tensor:
    return x * x * x


@cube.register_fake
def _(x):
    return torch.empty_like(x)


def _cube_setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def _cube_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * 3 * x * x


cube.register_autograd(_cube_backward, setup_context=_cube_setup)


@torch.library.custom_op("ctrl_torch::pairwise_sq", mutates_args=())
def pairwise_sq(a: Tensor, b: Tensor) -> Tensor:
    return ((a[:, None] - b[None]) ** 2).sum(-1)


@pairwise_sq.register_fake
def _(a, b):
    return a.new_empty(a.shape[0], b.shape[0])


@torch.library.custom_op("ctrl_torch::sum_list", mutates_args=())
def sum_list(xs: list[Tensor]) -> Tensor:
    total = xs[0].clone()
    for x in xs[1:]:
        total = total + x
    return total


@sum_list.register_fake
def _(xs):
    return torch.empty_like(xs[0])


@torch.library.custom_op("ctrl_torch::positives", mutates_args=())
def positives(x: Tensor) -> Tensor:
    return x[x > 0].clone()


@positives.register_fake
def _(x):
    n = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(n)


def sine_through_numpy_operator():
    return (lambda x: numpy_sin(x) ** 2 + torch.cos(x) ** 2), (torch.linspace(-3, 3, 13),)


def scaled_add_operator_with_broadcast():
    return (lambda x, y: scaled_add(x, y, 0.5).relu()), (_x(1, 4, 3), _x(2, 3))


def mutating_operator_on_a_clone():
    def f(x):
        y = x.clone()
        bump_(y, 2.5)
        bump_(y, -1.0)
        return y, x

    return f, (_x(3, 5),)


def operator_with_two_outputs():
    def f(x):
        pos, neg = split_sign(x)
        return pos.sum(), neg.sum(), pos + neg

    return f, (_x(4, 3, 4),)


def operator_with_registered_gradient():
    def f(x):
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(cube(x).sum(), x)
        return g

    return f, (_x(5, 6).double(),)


def nearest_centre_with_custom_distance():
    class Assign(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("centres", torch.tensor([[0.0, 0.0], [3.0, 3.0], [-3.0, 2.0]]))

        def forward(self, x):
            d = pairwise_sq(x, self.centres)
            return d.argmin(1), d.amin(1).sqrt()

    return Assign().eval(), (_x(6, 10, 2) * 2,)


def operator_taking_a_list_of_tensors():
    return (lambda a, b, c: sum_list([a, b, c]) / 3), (_x(7, 4), _x(8, 4), _x(9, 4))


def operator_with_data_dependent_output_size():
    def f(x):
        p = positives(x)
        return p.sum(), p * 2

    return f, (torch.tensor([1.0, -2.0, 3.0, 0.0, 5.0]),)


class _ClampSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lo, hi):
        return x.clamp(lo, hi)

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


class _Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s))


class _ReverseGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.lam * grad, None


class _SortedFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        v, i = torch.sort(x, dim=-1, stable=True)
        ctx.mark_non_differentiable(i)
        ctx.save_for_backward(i)
        return v, i

    @staticmethod
    def backward(ctx, gv, gi):
        (i,) = ctx.saved_tensors
        return torch.zeros_like(gv).scatter(-1, i, gv)


class _Exp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


def straight_through_clamp_gradient():
    def f(x):
        x = x.detach().requires_grad_()
        y = _ClampSTE.apply(x, -1.0, 1.0)
        (g,) = torch.autograd.grad((y * 3).sum(), x)
        return y.detach(), g

    return f, (torch.linspace(-3, 3, 7),)


def swish_function_in_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(6, 12)
            self.b = nn.Linear(12, 2)

        def forward(self, x):
            return self.b(_Swish.apply(self.a(x)))

    torch.manual_seed(10)
    return Net().eval(), (_x(10, 4, 6),)


def gradient_reversal_layer():
    def f(x, w):
        x = x.detach().requires_grad_()
        loss = (_ReverseGrad.apply(x, 0.3) @ w).pow(2).sum()
        (g,) = torch.autograd.grad(loss, x)
        return loss.detach(), g

    return f, (_x(11, 3, 4), _x(12, 4, 2))


def sorting_function_with_integer_output():
    def f(x):
        x = x.detach().requires_grad_()
        v, i = _SortedFn.apply(x)
        (g,) = torch.autograd.grad((v * torch.arange(v.shape[-1])).sum(), x)
        return v.detach(), i, g

    return f, (_x(13, 2, 5),)


def function_with_setup_context():
    def f(x):
        x = x.detach().requires_grad_()
        y = _Exp.apply(x)
        (g,) = torch.autograd.grad(y.sum(), x)
        return g - y.detach(), y.detach()

    return f, (_x(14, 7),)


def forward_only_use_of_function_without_gradients():
    return (lambda x: _Swish.apply(x) - torch.nn.functional.silu(x) + _Exp.apply(x * 0)), (_x(15, 9),)


def custom_operators_chained_in_sequence():
    def f(x):
        y = cube(numpy_sin(x))
        pos, neg = split_sign(y)
        return sum_list([scaled_add(pos, neg, -1.0), y])

    return f, (_x(16, 3, 3),)
