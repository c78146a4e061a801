"""Empty tensors, zero-size dimensions and zero-dimensional tensors."""

import torch
import torch.nn.functional as F
from torch import nn


def sum_and_prod_of_nothing():
    return (lambda x: (x.sum(), x.prod(), x.sum(0), x.prod(1))), (torch.empty(0, 3),)


def mean_of_nothing_is_nan():
    return (lambda x: (x.mean(), x.mean(dim=0), x.mean(dim=1))), (torch.empty(0, 4),)


def all_and_any_of_nothing():
    return (lambda x: (x.all(), x.any(), x.all(dim=1), x.any(dim=0))), (torch.empty(2, 0, dtype=torch.bool),)


def matmul_with_zero_inner_dimension():
    return (lambda a, b: a @ b + 1), (torch.empty(3, 0), torch.empty(0, 4))


def linear_layer_on_empty_batch():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2), nn.Softmax(-1))
    return net.eval(), (torch.empty(0, 5),)


def convolution_on_empty_batch():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(4))
    return net.eval(), (torch.empty(0, 3, 8, 8),)


def concatenation_of_empty_and_full():
    def f(a, b):
        return torch.cat([a, b, a]), torch.stack([b, b])[:, :0], torch.cat([b.new_empty(0), b.flatten()])

    return f, (torch.empty(0, 3), torch.arange(6.0).reshape(2, 3))


def scalar_arithmetic_and_broadcast():
    def f(s, v):
        return s * v, s + 1, s.reshape(1), s.expand(3), v.sum() / s, s.item() * 2

    return f, (torch.tensor(2.5), torch.tensor([1.0, -1.0, 4.0]))


def reductions_of_a_zero_dim_tensor():
    def f(s):
        return s.sum(), s.mean(), s.max(), s.argmax(), s.cumsum(0), s.sort().values, s.softmax(0), s.norm()

    return f, (torch.tensor(-3.0),)


def boolean_mask_selecting_nothing():
    def f(x):
        picked = x[x > 100]
        return picked, picked.sum(), picked.numel(), torch.nonzero(x > 100)

    return f, (torch.arange(10.0).reshape(2, 5),)


def empty_slices_and_narrow():
    def f(x):
        return x[3:3], x[:, 5:], x[..., :0].sum(-1), x.narrow(0, 1, 0), x[10:].shape[0]

    return f, (torch.arange(12.0).reshape(4, 3),)


def embedding_of_no_tokens():
    torch.manual_seed(2)

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(10, 6)
            self.out = nn.Linear(6, 2)

        def forward(self, ids):
            h = self.emb(ids)
            pooled = h.sum(1) / max(ids.shape[1], 1)
            return self.out(pooled)

    return Encoder().eval(), (torch.empty(3, 0, dtype=torch.long),)


def loss_over_empty_batch():
    def f(x, y):
        return F.mse_loss(x, y, reduction="sum"), F.mse_loss(x, y), F.l1_loss(x, y, reduction="none")

    return f, (torch.empty(0, 2), torch.empty(0, 2))


def empty_split_unbind_and_sort():
    def f(x):
        v, i = torch.sort(x, dim=1)
        parts = x.split([1, 0, 1])
        return v, i, parts[1].shape[0], len(x.unbind(0)), torch.cumsum(x, 1), x.flatten().tolist() == []

    return f, (torch.empty(2, 0),)


def attention_with_no_keys_yet():
    def step(q, past_k, past_v, k, v):
        k = torch.cat([past_k, k], dim=1)
        v = torch.cat([past_v, v], dim=1)
        w = torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, -1)
        return w @ v, k, v

    g = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(2, 1, 4, generator=g) for _ in range(3))
    return step, (q, torch.empty(2, 0, 4), torch.empty(2, 0, 4), k, v)
