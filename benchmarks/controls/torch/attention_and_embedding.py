"""Attention with various masks, embeddings and key-value caches."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def _x(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _qkv(seed, b=2, h=2, t=5, s=5, d=8):
    return _x(seed, b, h, t, d), _x(seed + 100, b, h, s, d), _x(seed + 200, b, h, s, d)


def causal_scaled_dot_product_attention():
    return (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), _qkv(1)


def attention_with_boolean_mask_and_zero_dropout():
    def f(q, k, v, keep):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=0.0)

    keep = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None, :]
    return f, (*_qkv(2), keep)


def attention_with_additive_bias_and_custom_scale():
    def f(q, k, v, slopes):
        pos = torch.arange(k.shape[2])[None] - torch.arange(q.shape[2])[:, None]
        bias = slopes[:, None, None] * pos.abs().neg()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.2)

    return f, (*_qkv(3), torch.tensor([0.5, 0.25]))


def attention_rows_with_no_allowed_key_are_zeroed():
    def f(q, k, v, keep):
        s = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        s = s.masked_fill(~keep, float("-inf"))
        w = torch.nan_to_num(torch.softmax(s, -1), nan=0.0)
        return w @ v, w.sum(-1)

    keep = torch.ones(5, 5).tril(-1).bool()
    return f, (*_qkv(4), keep)


def grouped_query_attention_by_repeating_heads():
    def f(q, k, v):
        n = q.shape[1] // k.shape[1]
        return F.scaled_dot_product_attention(q, k.repeat_interleave(n, 1), v.repeat_interleave(n, 1))

    return f, (_x(5, 1, 6, 4, 8), _x(6, 1, 2, 7, 8), _x(7, 1, 2, 7, 8))


def embedding_bag_modes_with_offsets():
    class Bags(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(12, 4))

        def forward(self, ids, offsets):
            return tuple(F.embedding_bag(ids, self.w, offsets, mode=m) for m in ("sum", "mean", "max"))

    torch.manual_seed(6)
    return Bags().eval(), (torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 3, 3, 6]))


def embedding_with_padding_index_and_its_gradient():
    def f(w, ids):
        w = w.detach().requires_grad_()
        y = F.embedding(ids, w, padding_idx=0)
        (g,) = torch.autograd.grad(y.pow(2).sum(), w)
        return y.detach(), g

    return f, (_x(8, 6, 3), torch.tensor([[1, 0, 2], [0, 5, 1]]))


def rotary_embedding_by_rotating_halves():
    def rotate_half(x):
        a, b = x.chunk(2, -1)
        return torch.cat([-b, a], -1)

    def f(q, k, pos):
        inv = 1.0 / (10000 ** (torch.arange(0, q.shape[-1], 2) / q.shape[-1]))
        ang = (pos[:, None] * inv).repeat(1, 2)
        cos, sin = ang.cos(), ang.sin()
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

    return f, (_x(9, 1, 2, 6, 8), _x(10, 1, 2, 6, 8), torch.arange(6.0) + 3)


def static_key_value_cache_written_at_positions():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(1, 2, 10, 4))
            self.register_buffer("v", torch.zeros(1, 2, 10, 4))

        def forward(self, pos, q, k, v):
            kc, vc = self.k.clone(), self.v.clone()
            kc[:, :, pos] = k
            vc[:, :, pos] = v
            mask = torch.arange(10)[None] <= pos[:, None]
            return F.scaled_dot_product_attention(q, kc, vc, attn_mask=mask), kc

    return Cache().eval(), (torch.tensor([0, 1, 2]), _x(11, 1, 2, 3, 4), _x(12, 1, 2, 3, 4), _x(13, 1, 2, 3, 4))


def incremental_decoding_equals_full_attention():
    def f(q, k, v):
        full = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        steps = [
            F.scaled_dot_product_attention(q[:, :, t : t + 1], k[:, :, : t + 1], v[:, :, : t + 1])
            for t in range(q.shape[2])
        ]
        return full, torch.cat(steps, 2)

    return f, _qkv(14)


def multihead_attention_module_with_weights():
    class Wrap(nn.Module):
        def __init__(self):
            super().__init__()
            self.mha = nn.MultiheadAttention(12, 3, dropout=0.0, batch_first=True)

        def forward(self, x, pad):
            y, w = self.mha(x, x, x, key_padding_mask=pad, need_weights=True, average_attn_weights=False)
            return y, w

    torch.manual_seed(15)
    pad = torch.tensor([[False] * 5, [False, False, False, True, True]])
    return Wrap().eval(), (_x(15, 2, 5, 12), pad)


def cross_attention_with_float_mask():
    class Cross(nn.Module):
        def __init__(self):
            super().__init__()
            self.mha = nn.MultiheadAttention(8, 2, kdim=6, vdim=10, bias=False)

        def forward(self, q, k, v, mask):
            return self.mha(q, k, v, attn_mask=mask, need_weights=False)[0]

    torch.manual_seed(16)
    mask = torch.zeros(4, 7)
    mask[0, 3:] = float("-inf")
    return Cross().eval(), (_x(16, 4, 2, 8), _x(17, 7, 2, 6), _x(18, 7, 2, 10), mask)


def relative_position_bias_from_a_table():
    class RelBias(nn.Module):
        def __init__(self, heads=2, buckets=8):
            super().__init__()
            self.table = nn.Embedding(buckets, heads)
            self.buckets = buckets

        def forward(self, q, k, v):
            rel = torch.arange(k.shape[2])[None] - torch.arange(q.shape[2])[:, None]
            n = rel.clamp(max=0).neg()
            large = 4 + (torch.log(n.float().clamp(min=1) / 4) / math.log(4) * 4).long()
            bucket = torch.where(n < 4, n, large.clamp(max=self.buckets - 1))
            bias = self.table(bucket).permute(2, 0, 1)
            return ((q @ k.mT) / q.shape[-1] ** 0.5 + bias).softmax(-1) @ v

    torch.manual_seed(19)
    return RelBias().eval(), _qkv(19, t=9, s=9)


def linear_attention_with_feature_map():
    def f(q, k, v):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.cumsum(torch.einsum("bhtd,bhte->bhtde", k, v), dim=2)
        z = 1 / torch.einsum("bhtd,bhtd->bht", q, k.cumsum(2))
        return torch.einsum("bhtd,bhtde,bht->bhte", q, kv, z)

    return f, _qkv(20)


def combined_causal_window_and_padding_masks():
    def f(q, k, v, lengths):
        t = q.shape[2]
        i, j = torch.arange(t)[:, None], torch.arange(t)[None]
        local = (j <= i) & (i - j < 3)
        pad = (j < lengths[:, None])[:, None, None, :]
        ok = local & pad
        safe = ok | (~ok.any(-1, keepdim=True))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=safe)
        return y * ok.any(-1, keepdim=True)

    return f, (*_qkv(21, t=7, s=7), torch.tensor([7, 2]))
