"""Which backends work here? Each is really imported, in a worker of its family."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import psutil

from driftline import __version__
from driftline.backends import BACKENDS
from driftline.core.config import cache_home
from driftline.core.errors import DriftlineError, InternalError
from driftline.core.text import first_line
from driftline.execute.environments import list_environments
from driftline.execute.pool import Pool, WorkerKind, WorkerStartError

PROBE_TIMEOUT = 120.0


@dataclass(frozen=True)
class BackendState:
    name: str
    available: bool
    version: str
    devices: tuple[str, ...]
    reason: str
    install: str


@dataclass(frozen=True)
class DoctorReport:
    backends: tuple[BackendState, ...]
    environment: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        backends = [{**asdict(b), "devices": list(b.devices)} for b in self.backends]
        return {"schema": 1, "backends": backends, "environment": self.environment}


def examine(
    pool: Pool,
    plugins: tuple[str, ...] = (),
    started: Callable[[str], None] = lambda name: None,
    finished: Callable[[str, str], None] = lambda name, outcome: None,
) -> DoctorReport:
    """Probe every backend. Backends of a family share one worker, so a compiler is imported once."""
    names = BACKENDS.names()
    states: dict[str, BackendState] = {}
    families = [(f, list(members)) for f, members in groupby(sorted(names, key=_family), key=_family)]

    def examine_family(family: tuple[str, list[str]]) -> None:
        for name in family[1]:
            started(name)
            states[name] = _state(pool, family[0], name, plugins)
            finished(name, "available" if states[name].available else states[name].reason)

    with ThreadPoolExecutor(max_workers=2) as threads:
        list(threads.map(examine_family, families))
    return DoctorReport(tuple(states[name] for name in names), describe_environment())


def _family(name: str) -> str:
    try:
        return BACKENDS.get(name).family_name
    except DriftlineError:
        return name


def _state(pool: Pool, family: str, name: str, plugins: tuple[str, ...]) -> BackendState:
    try:
        backend = BACKENDS.get(name)
    except DriftlineError as error:
        return BackendState(name, False, "", (), str(error), "")
    install = backend.install_command
    kind = WorkerKind(f"probe {family}")
    payload = {"backend": name, "plugins": list(plugins)}
    try:
        report = pool.run(kind, "driftline.execute.tasks:probe", payload, timeout=PROBE_TIMEOUT)
    except (WorkerStartError, InternalError) as error:
        return BackendState(name, False, "", (), first_line(str(error)), install)
    if report.ending != "done":
        return BackendState(name, False, "", (), f"its import ends with {report.ending} ({report.detail})", install)
    found = report.result
    return BackendState(name, found["available"], found["version"], tuple(found["devices"]), found["reason"], install)


def describe_environment() -> dict[str, Any]:
    return {
        "driftline": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "cache": str(cache_home()),
        "other_versions": [environment.requirement for environment in list_environments()],
    }
