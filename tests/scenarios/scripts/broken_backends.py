"""Backends of `torch.compile` for scripts beside this file: most are wrong, each in one way."""

from __future__ import annotations

import os

import torch
from torch._dynamo import register_backend


class _Halved(torch.autograd.Function):
    """Right values, and gradients of half the size."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient / 2


def _floats(outputs, change):
    return [change(o) if isinstance(o, torch.Tensor) and o.is_floating_point() else o for o in outputs]


@register_backend
def drops_mutations(gm, example):
    return lambda *inputs: gm(*[i.clone() if isinstance(i, torch.Tensor) else i for i in inputs])


@register_backend
def copies_outputs(gm, example):
    return lambda *inputs: _floats(gm(*inputs), torch.clone)


@register_backend
def detaches_outputs(gm, example):
    return lambda *inputs: _floats(gm(*inputs), torch.detach)


@register_backend
def halves_gradients(gm, example):
    return lambda *inputs: _floats(gm(*inputs), _Halved.apply)


@register_backend
def swallows_errors(gm, example):
    def run(*inputs):
        try:
            return gm(*inputs)
        except IndexError:
            return [torch.zeros(2)]

    return run


@register_backend
def forgets_updates(gm, example):
    """From the second call on, everything that the graph computes is as it was in the first one."""
    kept = []

    def run(*inputs):
        kept.append(kept[0] if kept else gm(*inputs))
        return kept[0]

    return run


@register_backend
def draws_once_more(gm, example):
    def run(*inputs):
        torch.rand(())
        return gm(*inputs)

    return run


@register_backend
def leaves_gradients_off(gm, example):
    def run(*inputs):
        outputs = gm(*inputs)
        torch._C._set_grad_enabled(False)
        return outputs

    return run


@register_backend
def off_by_a_thousandth(gm, example):
    return lambda *inputs: _floats(gm(*inputs), lambda o: o * 1.001)


@register_backend
def rounds_otherwise(gm, example):
    """Legal: every result of the graph is moved by less than a rounding step."""
    return lambda *inputs: _floats(
        gm(*inputs), lambda o: (o.double() * (1 + 0.9 * torch.finfo(o.dtype).eps)).to(o.dtype)
    )


@register_backend
def dies(gm, example):
    return lambda *inputs: os.abort()


@register_backend
def cannot_compile(gm, example):
    raise AssertionError("no rule for this graph")


SHORTENED: list[list[object]] = []  # lists of scripts that keep their first element only


@register_backend
def loses_elements(gm, example):
    def run(*inputs):
        for one in SHORTENED:
            del one[1:]
        return gm(*inputs)

    return run


ORDER: list[int] = []  # in which threads of a script run


@register_backend
def shuffles_threads(gm, example):
    ORDER[:] = [3, 1, 2]
    return gm.forward
