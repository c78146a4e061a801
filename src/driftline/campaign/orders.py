"""The orders of a hunt: to run a turn of programs, or to examine a program that failed.

An order holds everything needed to carry it out, so that any process with the same compilers can do so, and repeat it
after another process died.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from driftline.checking.batch_requests import ProgramRequest
from driftline.core.case import CheckOptions
from driftline.core.target import Target


@dataclass(frozen=True)
class TurnOrder:
    """An order to make programs, run them on a target and judge them."""

    target: Target
    form: str
    requests: tuple[ProgramRequest, ...]
    options: CheckOptions
    heard: Mapping[str, int] = field(default_factory=dict)  # how often each rejection was met before
    pieces: int = 1  # pieces into which the turn may be divided, to run in parallel


@dataclass(frozen=True)
class SuspectOrder:
    """An order to examine a program that failed. For a new bug other compilers are asked: all `witnesses` if a witness
    is needed, else the `peers`, which are running already."""

    target: Target
    form: str
    request: ProgramRequest
    options: CheckOptions
    peers: tuple[Target, ...] = ()
    witnesses: tuple[Target, ...] = ()
