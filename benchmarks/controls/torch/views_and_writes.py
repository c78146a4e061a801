"""Views, in-place writes, scatter with duplicates and aliasing outputs."""

import torch
from torch import nn


def _x(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def write_through_a_strided_slice():
    def f(x):
        y = x.clone()
        y[:, ::2] = 0
        y[1:, 1::2] *= 10
        y[-1] += y[0]
        return y

    return f, (torch.arange(20.0).reshape(4, 5),)


def index_put_accumulating_integers_with_duplicates():
    def f(rows, cols, vals):
        out = torch.zeros(4, 4, dtype=torch.long)
        out.index_put_((rows, cols), vals, accumulate=True)
        return out

    return f, (torch.tensor([0, 1, 0, 3, 0]), torch.tensor([1, 1, 1, 2, 1]), torch.tensor([5, 6, 7, 8, 9]))


def scatter_add_integers_with_duplicates():
    def histogram(ids, weights):
        return torch.zeros(6, dtype=weights.dtype).scatter_add_(0, ids, weights)

    g = torch.Generator().manual_seed(2)
    return histogram, (torch.randint(0, 6, (50,), generator=g), torch.randint(-9, 9, (50,), generator=g))


def scatter_add_floats_with_duplicates():
    def pool(nodes, src):
        return torch.zeros(4, nodes.shape[1]).scatter_add_(0, src[:, None].expand_as(nodes), nodes)

    g = torch.Generator().manual_seed(3)
    return pool, (_x(3, 30, 3), torch.randint(0, 4, (30,), generator=g))


def sliding_windows_by_as_strided():
    def windows(x):
        w = x.as_strided((x.numel() - 3, 4), (1, 1))
        return w.mean(1), w.amax(1)

    return windows, (torch.arange(12.0) ** 2,)


def expanded_tensor_added_to_full_one():
    def f(bias, x):
        e = bias.expand(x.shape[0], -1)
        return e + x, e.contiguous().stride(0), e.stride(0)

    return f, (torch.tensor([1.0, 2.0, 3.0]), _x(4, 4, 3))


def unfold_makes_overlapping_frames():
    def frames(signal, window):
        f = signal.unfold(0, 8, 4)
        return f * window, (f * window).pow(2).sum(-1)

    return frames, (_x(5, 40), torch.hann_window(8))


def diagonal_is_written_in_place():
    def f(x):
        y = x.clone()
        y.diagonal().fill_(1.0)
        torch.diagonal(y, offset=1).mul_(-1)
        return y, y.fill_diagonal_(7.0).trace()

    return f, (_x(6, 5, 5),)


def masked_fill_then_masked_scatter():
    def f(x, mask, src):
        y = x.clone().masked_fill_(mask, -1.0)
        z = x.masked_scatter(mask, src)
        return y, z

    m = torch.tensor([[True, False, True], [False, True, False]])
    return f, (torch.arange(6.0).reshape(2, 3), m, torch.tensor([10.0, 20.0, 30.0]))


def input_mutated_by_the_function():
    def f(x, y):
        x.add_(y)
        y[0] = 0
        return x * 2

    return f, (torch.ones(3, 2), torch.arange(6.0).reshape(3, 2))


def outputs_that_alias_the_input():
    def f(x):
        return x, x.view(-1), x.t(), x[1:], x.detach()

    return f, (torch.arange(6.0).reshape(2, 3),)


def view_written_after_base_is_read():
    def f(x):
        base = x.clone()
        v = base.view(2, -1)
        before = base.sum()
        v[0].zero_()
        base[-1] = 100
        return before, base, v

    return f, (torch.arange(8.0),)


def copy_between_overlapping_free_slices_of_a_buffer():
    class ShiftRegister(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("init", torch.zeros(5, 2))

        def forward(self, xs):
            buf = self.init.clone()
            out = []
            for x in xs:
                buf[1:] = buf[:-1].clone()
                buf[0].copy_(x)
                out.append(buf.sum(0))
            return torch.stack(out), buf

    return ShiftRegister().eval(), (_x(7, 8, 2),)


def index_add_and_index_copy_on_rows():
    def f(x, idx, src):
        a = x.clone().index_add_(0, idx, src, alpha=2)
        b = x.clone().index_copy_(0, torch.tensor([3, 1, 0]), src)
        c = x.clone().index_fill_(1, torch.tensor([0]), -5)
        return a, b, c

    return f, (torch.zeros(4, 3), torch.tensor([0, 2, 0]), torch.arange(9.0).reshape(3, 3))


def transpose_then_in_place_then_reshape():
    def f(x):
        t = x.clone().permute(2, 0, 1)
        t[0].neg_()
        t.select(1, 1).add_(1000)
        return t.reshape(-1), t.is_contiguous(), t.contiguous().view(-1, 2)

    return f, (torch.arange(24.0).reshape(2, 3, 4),)
