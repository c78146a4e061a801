"""On which device the programs for rules are made and run: the processor, unless an audit is about another one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

import torch

_CPU = "cpu"
_DEVICE: ContextVar[str] = ContextVar("device of rules", default=_CPU)
_LOST = 70  # how the process ends when its device answers no more


@contextlib.contextmanager
def on_device(name: str) -> Iterator[None]:
    """Inside the block, programs for rules are made for this device."""
    token = _DEVICE.set(name)
    try:
        yield
    finally:
        _DEVICE.reset(token)


def rules_device() -> torch.device:
    return torch.device(_DEVICE.get())


@contextlib.contextmanager
def placing() -> Iterator[None]:
    """Tensors that are made inside the block lie on that device, with data or without."""
    if _DEVICE.get() == _CPU:
        yield
        return
    with rules_device():
        yield


def end_if_lost() -> None:
    """A program with an index out of range leaves a GPU that answers every later call of this process with the same
    error. Whoever goes on in such a process finds nothing, and believes that there is nothing: so it ends."""
    if _DEVICE.get() == _CPU:
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        os._exit(_LOST)
