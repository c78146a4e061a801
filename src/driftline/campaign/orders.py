"""What a hunt asks for: a turn of programs, or the examination of one that failed.

An order holds all that is needed to carry it out, so that any process with the same compilers can do it, and do it
again when another one died over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from driftline.checking.batch_requests import ProgramRequest
from driftline.core.case import CheckOptions
from driftline.core.target import Target


@dataclass(frozen=True)
class TurnOrder:
    """Programs to be made, run on a target and judged."""

    target: Target
    form: str
    requests: tuple[ProgramRequest, ...]
    options: CheckOptions
    heard: Mapping[str, int] = field(default_factory=dict)  # how often each rejection was met before
    pieces: int = 1  # into which it may be divided, to run side by side


@dataclass(frozen=True)
class SuspectOrder:
    """A program that failed, to be examined. Others are asked about a new bug: all `witnesses` when one is needed, else
    the `peers`, which are running already."""

    target: Target
    form: str
    request: ProgramRequest
    options: CheckOptions
    peers: tuple[Target, ...] = ()
    witnesses: tuple[Target, ...] = ()
