"""Ties in orderings: arg-reductions, sorts, top-k, medians and unique."""

import torch
from torch import nn


def argmax_of_repeated_maxima():
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0], [5.0, 1.0, 5.0, 5.0]])
    return (lambda t: (t.argmax(1), t.argmin(0), t.argmax())), (x,)


def max_with_dim_values_and_indices_on_ties():
    def f(x):
        v, i = x.max(dim=-1)
        w, j = torch.min(x, dim=0)
        return v, x.gather(-1, i.unsqueeze(-1)).squeeze(-1), w, i, j

    return f, (torch.tensor([[2, 2, 1], [7, 7, 7], [1, 9, 9]]),)


def stable_sort_of_few_distinct_keys():
    keys = torch.tensor([2, 1, 2, 0, 1, 1, 0, 2, 2, 0])
    return (lambda k: torch.sort(k, stable=True)), (keys,)


def stable_descending_argsort():
    keys = torch.tensor([[0.5, 0.5, 0.1, 0.9, 0.9], [1.0, 1.0, 1.0, 1.0, 1.0]])
    return (lambda k: torch.argsort(k, dim=1, descending=True, stable=True)), (keys,)


def unstable_sort_of_ties_values_and_indices():
    keys = (torch.arange(40) * 7 % 5).float()
    return (lambda k: torch.sort(k)), (keys,)


def topk_values_only_on_tied_scores():
    scores = torch.tensor([[1.0, 2.0, 2.0, 2.0, 0.0], [4.0, 4.0, 4.0, 4.0, 4.0]])
    return (lambda s: s.topk(3, dim=1).values), (scores,)


def topk_indices_on_tied_scores():
    def f(s):
        v, i = torch.topk(s, 2)
        return i, torch.gather(s, -1, i) - v

    return f, (torch.tensor([[3.0, 3.0, 3.0, 1.0], [0.0, 0.0, -1.0, 0.0]]),)


def lower_median_of_even_count_with_ties():
    def f(x):
        flat = x.median()
        v, i = x.median(dim=1)
        return flat, v, x.gather(1, i[:, None])[:, 0], i

    return f, (torch.tensor([[1.0, 2.0, 2.0, 3.0], [4.0, 4.0, 1.0, 1.0]]),)


def mode_of_rows_with_several_modes():
    def f(x):
        v, i = torch.mode(x, dim=1)
        return v, i

    return f, (torch.tensor([[1, 1, 2, 2, 3], [5, 4, 5, 4, 4], [9, 9, 9, 9, 9]]),)


def unique_with_inverse_and_counts():
    x = torch.tensor([3, 1, 2, 3, 3, 1, 0, 2])
    return (lambda t: torch.unique(t, sorted=True, return_inverse=True, return_counts=True)), (x,)


def unique_consecutive_runs():
    x = torch.tensor([1, 1, 2, 2, 3, 1, 1, 2])
    return (lambda t: torch.unique_consecutive(t, return_inverse=True, return_counts=True)), (x,)


def kthvalue_with_duplicates():
    def f(x):
        return tuple(torch.kthvalue(x, k, dim=-1).values for k in (1, 2, 3, 4))

    return f, (torch.tensor([[2.0, 2.0, 1.0, 1.0], [0.0, 3.0, 3.0, 3.0]]),)


def greedy_router_with_equal_logits():
    class Router(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Linear(4, 3, bias=False)
            nn.init.zeros_(self.proj.weight)
            with torch.no_grad():
                self.proj.weight[0, 0] = 1.0
                self.proj.weight[1, 0] = 1.0

        def forward(self, x):
            p = self.proj(x).softmax(-1)
            top, expert = p.max(-1)
            return top, torch.nn.functional.one_hot(expert, 3).sum(0)

    return Router().eval(), (torch.eye(4),)


def gradient_of_amax_is_shared_between_ties():
    def f(x):
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(x.amax(dim=1).sum() + x.amin(dim=0).sum(), x)
        return g

    return f, (torch.tensor([[1.0, 1.0, 0.0], [2.0, 2.0, 2.0]]),)


def argmax_over_bool_and_signed_zero():
    def f(mask, z):
        first_true = mask.int().argmax(dim=1)
        return first_true, z.argmax(), z.max() == 0, torch.sort(z, stable=True).indices

    return f, (torch.tensor([[False, True, True], [False, False, False]]), torch.tensor([-0.0, 0.0, -0.0, 0.0]))
