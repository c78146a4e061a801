"""Control flow: branches, loops, early returns, and the higher-order operators."""

import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop


def _x(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def branch_on_number_of_dimensions():
    def f(x):
        if x.dim() == 2:
            x = x.unsqueeze(0)
            squeezed = True
        else:
            squeezed = False
        y = torch.bmm(x, x.transpose(1, 2))
        return y.squeeze(0) if squeezed else y

    return f, (_x(1, 4, 3),)


def branch_on_data_sum():
    def f(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    return f, (torch.tensor([1.0, -3.0, 0.5]),)


def newton_iteration_until_converged():
    def sqrt_newton(a):
        x = a.clone()
        steps = 0
        while (x * x - a).abs().max() > 1e-9 and steps < 50:
            x = 0.5 * (x + a / x)
            steps += 1
        return x

    return sqrt_newton, (torch.tensor([2.0, 9.0, 0.25, 100.0], dtype=torch.float64),)


def collatz_steps_elementwise():
    def f(n):
        steps = torch.zeros_like(n)
        for _ in range(120):
            active = n != 1
            n = torch.where(active, torch.where(n % 2 == 0, n // 2, 3 * n + 1), n)
            steps = steps + active
        return steps

    return f, (torch.arange(1, 28),)


def cond_picks_cos_or_sin():
    def f(x):
        return torch.cond(x.sum() > 0, lambda t: t.cos(), lambda t: t.sin(), (x,))

    return f, (torch.tensor([1.0, -2.0, 0.25]),)


def cond_on_shape_inside_module():
    class DynamicShapeCond(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, x):
            def true_fn(t):
                return self.lin(t).relu()

            def false_fn(t):
                return self.lin(t).tanh()

            return torch.cond(x.shape[0] > 4, true_fn, false_fn, (x,))

    torch.manual_seed(2)
    return DynamicShapeCond().eval(), (_x(2, 6, 4),)


def while_loop_counts_down():
    def f(i, x):
        return while_loop(lambda i, x: i > 0, lambda i, x: (i - 1, x * 1.5 + 1), (i, x))

    return f, (torch.tensor(6), torch.tensor([1.0, -1.0]))


def where_with_three_regimes():
    def huber_like(x, delta):
        a = x.abs()
        return torch.where(
            a < delta, 0.5 * x * x, torch.where(a < 3 * delta, delta * (a - 0.5 * delta), torch.zeros(()))
        )

    return huber_like, (torch.linspace(-4, 4, 33), torch.tensor(1.0))


def early_exit_network():
    class EarlyExit(nn.Module):
        def __init__(self):
            super().__init__()
            self.stages = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
            self.heads = nn.ModuleList(nn.Linear(8, 3) for _ in range(4))

        def forward(self, x):
            for stage, head in zip(self.stages, self.heads, strict=False):
                x = torch.relu(stage(x))
                p = head(x).softmax(-1)
                if p.max() > 0.55:
                    return p
            return p

    torch.manual_seed(4)
    return EarlyExit().eval(), (_x(4, 2, 8),)


def list_comprehension_over_chunks():
    def f(x):
        parts = [c.sum(-1) * (i + 1) for i, c in enumerate(x.chunk(4, dim=-1)) if c.shape[-1] > 1]
        return torch.stack(parts, dim=-1)

    return f, (_x(5, 3, 14),)


def power_iteration_for_fixed_steps():
    def f(a):
        v = torch.ones(a.shape[-1], dtype=a.dtype) / a.shape[-1] ** 0.5
        for _ in range(30):
            v = a @ v
            v = v / v.norm()
        return v @ a @ v

    a = _x(6, 5, 5).double()
    return f, (a @ a.T + torch.diag(torch.arange(5.0, dtype=torch.float64) * 4),)


def recursion_over_halves():
    def tree_sum(x):
        if x.shape[0] == 1:
            return x[0]
        h = x.shape[0] // 2
        return tree_sum(x[:h]) + tree_sum(x[h:])

    return tree_sum, (_x(7, 11, 3),)


def dictionary_dispatch_on_python_mode():
    ops = {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax}

    class Pool(nn.Module):
        def __init__(self, modes):
            super().__init__()
            self.modes = modes

        def forward(self, x):
            out = []
            for mode in self.modes:
                if mode not in ops:
                    raise ValueError(mode)
                out.append(ops[mode](x, dim=1))
            return torch.cat(out, dim=-1)

    return Pool(("sum", "amax", "mean")).eval(), (_x(8, 2, 5, 3),)


def ragged_lengths_loop_with_continue():
    def masked_means(x, lengths):
        out = []
        for row, n in zip(x, lengths.tolist(), strict=False):
            if n == 0:
                out.append(torch.zeros(x.shape[-1]))
                continue
            out.append(row[:n].mean(0))
        return torch.stack(out)

    return masked_means, (_x(9, 4, 6, 2), torch.tensor([3, 0, 6, 1]))


def greedy_decoding_until_stop_token():
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(12, 8)
            self.cell = nn.GRUCell(8, 8)
            self.out = nn.Linear(8, 12)

        def forward(self, h):
            tok = torch.zeros(h.shape[0], dtype=torch.long)
            done = torch.zeros(h.shape[0], dtype=torch.bool)
            toks = []
            for _ in range(10):
                h = self.cell(self.emb(tok), h)
                tok = self.out(h).argmax(-1).masked_fill(done, 0)
                done = done | (tok == 11)
                toks.append(tok)
                if done.all():
                    break
            return torch.stack(toks, 1)

    torch.manual_seed(10)
    return Decoder().eval(), (_x(10, 3, 8),)
