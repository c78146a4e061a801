"""Switches TF32 off on a GPU: torch allows it for convolutions and recurrences by default.

A product in TF32 has 10 bits of its fraction, so errors of a kernel that are smaller than that do not show. KernelDiff
therefore computes without it, in both runs. torch has two sets of switches. The old ones (`allow_tf32`,
`set_float32_matmul_precision`) cannot be read once they disagree with the new ones (`fp32_precision`, by kind of
operator), and TorchInductor reads them. Both sets are switched off, so that they agree, and both are put back.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TF32, IEEE_ONLY, _UNSET = "tf32", "ieee", "none"
_CPU = "matrix products on a CPU"  # no TF32 there, but the old switches speak of these products too
# What the new switches of matrix products have to say (on a GPU, on a CPU) for the old one to be read.
_AGREED = ((IEEE_ONLY, IEEE_ONLY), (TF32, TF32), (TF32, "bf16"))


def kinds_with_tf32() -> tuple[str, ...]:
    """Return the kinds of operators that torch may compute in TF32 now."""
    return tuple(kind for kind, precision in _precisions().items() if precision == TF32 and kind != _CPU)


@contextlib.contextmanager
def without_tf32() -> Iterator[None]:
    """Compute float32 without TF32 inside the block, and restore torch's settings afterwards."""
    import torch

    with _quiet():
        before = _Settings.read()
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
        _set(dict.fromkeys(_switches(), IEEE_ONLY))
    try:
        yield
    finally:
        with _quiet():
            before.put_back()


@dataclass(frozen=True)
class _Settings:
    """The values of all TF32 switches."""

    products: str  # of set_float32_matmul_precision: highest, high or medium
    cudnn: bool  # cudnn.allow_tf32
    precisions: dict[str, str]  # of the new switches, by kind

    @staticmethod
    def read() -> _Settings:
        import torch

        precisions = {kind: _own(switch) for kind, switch in _switches().items()}
        try:
            cudnn = bool(torch.backends.cudnn.allow_tf32)
        except RuntimeError:  # it is not what the new switches say of both kinds, and with False these are off
            _set({"convolutions": TF32, "recurrences": TF32})
            cudnn = _readable()
        products = _products()
        _set(precisions)
        return _Settings(products, cudnn, precisions)

    def put_back(self) -> None:
        import torch

        torch.set_float32_matmul_precision(self.products)
        torch.backends.cudnn.allow_tf32 = self.cudnn
        _set(self.precisions)  # last, since the others set these too


def _switches() -> dict[str, Any]:
    """Return the objects with `fp32_precision`, by kind of operator; empty for releases before 2.9."""
    import torch

    if not hasattr(torch.backends.cudnn, "conv"):
        return {}
    backends: Any = torch.backends
    return {
        "convolutions": backends.cudnn.conv,
        "recurrences": backends.cudnn.rnn,
        "matrix products": backends.cuda.matmul,
        _CPU: backends.mkldnn.matmul,
    }


def _precisions() -> dict[str, str]:
    import torch

    if switches := _switches():
        return {kind: switch.fp32_precision for kind, switch in switches.items()}
    convolutions, matrices = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    named = {"convolutions": convolutions, "recurrences": convolutions, "matrix products": matrices}
    return {kind: TF32 if allowed else IEEE_ONLY for kind, allowed in named.items()}


def _set(precisions: dict[str, str]) -> None:
    switches = _switches()
    for kind, precision in precisions.items():
        switches[kind].fp32_precision = precision


def _own(switch: Any) -> str:
    """Return a switch's own value, or unset if it follows `torch.backends.fp32_precision`, so that it still does
    later."""
    import torch

    general: Any = torch.backends
    shown, of_all = switch.fp32_precision, general.fp32_precision
    if of_all == _UNSET:
        return str(shown)
    general.fp32_precision = TF32 if of_all == IEEE_ONLY else IEEE_ONLY
    follows = switch.fp32_precision != shown
    general.fp32_precision = of_all
    return _UNSET if follows else str(shown)


def _readable() -> bool:
    """True if `cudnn.allow_tf32` can be read."""
    import torch

    with contextlib.suppress(RuntimeError):
        return torch.backends.cudnn.allow_tf32 is not None
    return False


def _products() -> str:
    """Return the value set by `set_float32_matmul_precision`. Changes the new switches if they hide it."""
    import torch

    for agreed in (None, *_AGREED):
        if agreed:
            _set(dict(zip(("matrix products", _CPU), agreed, strict=True)))
        with contextlib.suppress(RuntimeError):
            return torch.get_float32_matmul_precision()
    return "highest"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's advice to use the new switches only."""
    with _may_be_set(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _may_be_set() -> contextlib.AbstractContextManager[None]:
    """Return a context manager in which the switches may be set although torch's own tests have frozen them."""
    import torch

    allowed: Any = getattr(torch.backends, "__allow_nonbracketed_mutation", contextlib.nullcontext)
    made: contextlib.AbstractContextManager[None] = allowed()
    return made
