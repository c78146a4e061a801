"""The settings of a run of the TorchInductor lab."""

from __future__ import annotations

from dataclasses import dataclass

TIMEOUT = 900.0  # seconds


@dataclass(frozen=True)
class LabSettings:
    """How the lab compiles and runs a program; each of its commands uses the fields that concern it."""

    backend: str = "inductor"  # of torch.compile
    reference: str = "eager"  # the backend that results are compared with
    device: str = "cpu"
    grad: bool = False  # compile and run the backward pass too
    dynamic: bool | None = None  # as torch.compile takes it; None: automatic
    runs: int = 1  # of the compared backend
    pictures: bool = False  # draw where the differences lie
    seed: int = 0
    timeout: float = TIMEOUT
