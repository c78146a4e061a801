"""Build the command lines that would cover missing parts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from driftline.core.config import default_store
from driftline.core.quoting import shell
from driftline.core.target import Target
from driftline.store import Store
from driftline.store.exercised import Exercised
from driftline.store.hunts import Hunt

_SECONDS = 1.0  # for a program, where none was timed
_ALONE = 2  # of a batch, every second program is one operator alone
_LEAST = 2  # minutes


def hunt(store: Store, compiler: str, ran: Exercised, missing: int, listed: int, hunts: Sequence[Hunt]) -> str:
    """Return the shorter of two commands, estimated from the time per program so far: resume the last hunt, which knows
    what was tried but divides its time among its compilers, or start a new hunt on this compiler only.
    """
    pace = ran.seconds / ran.programs if ran.programs else _SECONDS
    anew, further = (_minutes(pace * pairs * _ALONE) for pairs in (listed, missing))
    last = [Target.parse(str(target)).backend for target in hunts[-1].plan.get("targets") or ()] if hunts else []
    if compiler in last and further * len(last) <= anew:
        spent = math.ceil(hunts[-1].seconds / 60)
        return _typed(store, "hunt", "--resume", "--budget", f"{spent + further * len(last)}m")
    return _typed(store, "hunt", "--targets", compiler, "--budget", f"{anew}m")


def _minutes(seconds: float) -> int:
    return max(_LEAST, math.ceil(seconds / 60)) if math.isfinite(seconds) else _LEAST  # of damaged rows


def audit(store: Store, compiler: str) -> str:
    return _typed(store, "patterns", "audit", "--compilers", compiler, "--budget", "30m")


def passes(store: Store, compiler: str) -> str:
    return _typed(store, "passes", "test", "--compilers", compiler, "--budget", "10m")


def check(store: Store, compiler: str, model: str) -> str:
    return _typed(store, "check", model, "--targets", compiler)


def _typed(store: Store, *words: str) -> str:
    place = [] if store.path == default_store() else ["--store", store.path]
    return shell(["driftline", *words, *place])
