"""TF32 on a GPU: torch allows it for convolutions and recurrences unless it is told otherwise.

A product in TF32 has 10 bits of its fraction, so errors of a kernel that are smaller than that do not show. KernelDiff
therefore computes without it, in both runs. torch has two sets of switches: `allow_tf32`, which cannot be read once the
two disagree, and `fp32_precision`, by kind of operator. Both are set, and both are put back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

TF32, IEEE_ONLY = "tf32", "ieee"


def kinds_with_tf32() -> tuple[str, ...]:
    """The kinds of operators that torch may compute in TF32 now."""
    return tuple(kind for kind, precision in _precisions().items() if precision == TF32)


@contextlib.contextmanager
def without_tf32() -> Iterator[None]:
    """float32 is computed as float32 within, and as before afterwards."""
    before = _precisions()
    convolutions, matrices = _legacy()
    conv, products = before["convolutions"] == TF32, before["matrix products"] == TF32
    _set_legacy(False, False)
    _set(dict.fromkeys(before, IEEE_ONLY))
    try:
        yield
    finally:
        # What cannot be read is the other of the two: that is why it cannot.
        _set_legacy(not conv if convolutions is None else convolutions, not products if matrices is None else matrices)
        _set(before)


def _switches() -> dict[str, Any]:
    """What has `fp32_precision`, by kind of operator; releases before 2.9 have no such thing."""
    import torch

    if not hasattr(torch.backends.cudnn, "conv"):
        return {}
    cudnn: Any = torch.backends.cudnn
    return {"convolutions": cudnn.conv, "recurrences": cudnn.rnn, "matrix products": torch.backends.cuda.matmul}


def _precisions() -> dict[str, str]:
    switches = _switches()
    if switches:
        return {kind: switch.fp32_precision for kind, switch in switches.items()}
    convolutions, matrices = _legacy()
    named = {"convolutions": convolutions, "recurrences": convolutions, "matrix products": matrices}
    return {kind: TF32 if allowed else IEEE_ONLY for kind, allowed in named.items()}


def _set(precisions: dict[str, str]) -> None:
    for kind, switch in _switches().items():
        switch.fp32_precision = precisions[kind]


def _legacy() -> tuple[bool | None, bool | None]:
    """`allow_tf32` of cuDNN and of matrix products; None where torch refuses to say."""
    import torch

    found: list[bool | None] = []
    for switch in (torch.backends.cudnn, torch.backends.cuda.matmul):
        try:
            found.append(bool(switch.allow_tf32))
        except RuntimeError:
            found.append(None)
    return found[0], found[1]


def _set_legacy(convolutions: bool, matrices: bool) -> None:
    import torch

    torch.backends.cudnn.allow_tf32 = convolutions
    torch.backends.cuda.matmul.allow_tf32 = matrices
