"""The device on which programs for rules are created and run: the CPU, unless an audit names another one."""

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
    """Inside the block, create programs for rules on this device."""
    token = _DEVICE.set(name)
    try:
        yield
    finally:
        _DEVICE.reset(token)


def rules_device() -> torch.device:
    """Return the device of the current audit."""
    return torch.device(_DEVICE.get())


@contextlib.contextmanager
def placing() -> Iterator[None]:
    """Inside the block, create all tensors on the device of the audit."""
    if _DEVICE.get() == _CPU:
        yield
        return
    with rules_device():
        yield


def end_if_lost() -> None:
    """End the process if its GPU no longer works. After an index out of range the GPU fails every later call of the
    process, and continuing would find nothing and report that as a result."""
    if _DEVICE.get() == _CPU:
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        os._exit(_LOST)
