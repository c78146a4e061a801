"""Finds out which backends work here by importing each in a worker of its family. The result is cached until a package
is installed or removed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import distributions
from itertools import groupby
from pathlib import Path
from typing import Any

import psutil

from driftline import __version__
from driftline.backends import BACKENDS
from driftline.checking.kinds import worker_for_target
from driftline.core.answers import keep, recalled, surroundings
from driftline.core.config import cache_home
from driftline.core.errors import DriftlineError, InternalError
from driftline.core.target import Target
from driftline.core.text import first_line
from driftline.execute.environments import list_environments
from driftline.execute.pool import Pool, WorkerKind, WorkerStartError
from driftline.execute.requests import PROBE, ProbeRequest
from driftline.execute.sandbox import in_force, shortcomings

PROBE_TIMEOUT = 120.0
_GPU = "cuda"


@dataclass(frozen=True)
class BackendState:
    """Whether one backend works here, with its version and devices, or the reason why not."""

    name: str
    available: bool
    version: str
    devices: tuple[str, ...]
    reason: str
    install: str
    by_chance: bool = False  # the probe itself did not finish


@dataclass(frozen=True)
class DoctorReport:
    """The state of all backends. `probed`: when the compilers were imported, in seconds since 1970."""

    backends: tuple[BackendState, ...]
    environment: dict[str, Any]
    probed: float
    remembered: bool = False

    def to_json(self) -> dict[str, Any]:
        backends = [_state_json(state) for state in self.backends]
        return {
            "schema": 1,
            "backends": backends,
            "environment": self.environment,
            "probed": datetime.fromtimestamp(self.probed, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "remembered": self.remembered,
        }


def recall_report(plugins: tuple[str, ...] = ()) -> DoctorReport | None:
    """Return the cached report, or None if a package was installed or removed since."""
    known = recalled("doctor", _key(plugins))
    if known is None:
        return None
    states = tuple(BackendState(**{**state, "devices": tuple(state["devices"])}) for state in known.value)
    return DoctorReport(states, describe_environment(), known.made, remembered=True)


def keep_report(report: DoctorReport, plugins: tuple[str, ...] = ()) -> None:
    """Cache a report, unless a probe timed out or died: it may succeed the next time."""
    if not any(state.by_chance for state in report.backends):
        keep("doctor", _key(plugins), [_state_json(state) for state in report.backends])


def _state_json(state: BackendState) -> dict[str, Any]:
    return {**{k: v for k, v in asdict(state).items() if k != "by_chance"}, "devices": list(state.devices)}


def _key(plugins: tuple[str, ...]) -> list[Any]:
    """Return a cache key of the installed packages, the plugins' text, and the programs that compilers look for."""
    installed = sorted({f"{d.metadata['Name']}=={d.version}" for d in distributions()})
    texts = [hashlib.sha256(Path(plugin).read_bytes()).hexdigest() for plugin in plugins]
    machine = [shutil.which(name) or "" for name in ("g++", "clang++", "nvidia-smi")]
    return [surroundings(), installed, sorted(BACKENDS.names()), texts, machine, os.environ.get("CUDA_VISIBLE_DEVICES")]


def examine(
    pool: Pool,
    plugins: tuple[str, ...] = (),
    started: Callable[[str], None] = lambda name: None,
    finished: Callable[[str, str], None] = lambda name, outcome: None,
) -> DoctorReport:
    """Probe every backend. Backends of a family share one worker, so that a compiler is imported once."""
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
    return DoctorReport(tuple(states[name] for name in names), describe_environment(), time.time())


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
    try:
        report = pool.run(kind, PROBE, ProbeRequest(name, plugins), timeout=PROBE_TIMEOUT)
    except (WorkerStartError, InternalError) as error:
        return BackendState(name, False, "", (), first_line(str(error)), install, by_chance=True)
    found = report.answer
    if found is None:
        told = f"its import ends with {report.ending} ({report.detail})"
        return BackendState(name, False, "", (), told, install, by_chance=True)
    devices = _with_gpu(pool, name, found.devices, plugins) if found.available else found.devices
    return BackendState(name, found.available, found.version, devices, found.reason, install)


def _with_gpu(pool: Pool, name: str, found: tuple[str, ...], plugins: tuple[str, ...]) -> tuple[str, ...]:
    """Return the devices of a backend, tested in a worker that may open the GPU: ordinary workers cannot."""
    backend = BACKENDS.get(name)
    if _GPU not in backend.devices or _GPU in found or not shutil.which("nvidia-smi"):
        return found
    kind = worker_for_target(backend, Target(name, options=(("device", _GPU),)), plugins)
    with contextlib.suppress(WorkerStartError, InternalError):
        report = pool.run(kind, PROBE, ProbeRequest(name, plugins), timeout=PROBE_TIMEOUT)
        return report.answer.devices if report.answer else found
    return found


def describe_environment() -> dict[str, Any]:
    """Return the facts about Driftline, Python and the machine that a report includes."""
    return {
        "driftline": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "cache": str(cache_home()),
        "sandbox": shortcomings(),
        "sandbox_layers": in_force(),
        "other_versions": [environment.requirement for environment in list_environments()],
    }
