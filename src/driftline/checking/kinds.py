"""Chooses the kind of worker for a job: the interpreter of an environment, with the right modules imported."""

from __future__ import annotations

import sys
from dataclasses import replace

from driftline.backends import BACKENDS
from driftline.backends.base import Backend
from driftline.core.plugins import approved
from driftline.core.target import Target
from driftline.execute.environments import require_environment
from driftline.execute.pool import WorkerKind

# The backend whose family imports a framework: programs of that framework are loaded and evaluated in its worker.
HOME = {"torch": "eager", "onnx": "onnx-reference", "jax": "xla", "tensorflow": "tensorflow"}


def worker_for_target(backend: Backend, target: Target, plugins: tuple[str, ...]) -> WorkerKind:
    """Return the kind of worker that runs programs on a target."""
    python = require_environment(backend.packages, target.version).python if target.version else sys.executable
    kind = _kind(backend, plugins, python, fork=target.device == "cpu")
    more = backend.variables(dict(target.options))
    return replace(kind, variables=(*kind.variables, *sorted(more.items()))) if more else kind


def worker_for_framework(framework: str, plugins: tuple[str, ...] = ()) -> WorkerKind:
    """Return the kind of worker that evaluates programs of a framework."""
    return _kind(BACKENDS.get(HOME[framework]), plugins, sys.executable, fork=True)


def _kind(backend: Backend, plugins: tuple[str, ...], python: str, *, fork: bool) -> WorkerKind:
    warm: list[tuple[str, object]] = [("driftline.backends:warm", backend.family_name)]
    framework = next((name for name, home in HOME.items() if BACKENDS.get(home).family_name == backend.family_name), "")
    if framework and python == sys.executable and fork:
        warm.append(("driftline.checking.warm_tasks:warm_tasks", framework))
    if plugins:
        plugins = approved(plugins, "This case")  # a worker imports only the plugins that the user gave
        warm.insert(0, ("driftline.core.plugins:load_plugins", plugins))
    if not fork:
        warm.append(("driftline.backends:wake_device", backend.family_name))
    variables = {} if not fork else {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    fit = None if fork else ("driftline.backends:device_answers", backend.family_name)
    return WorkerKind(backend.family_name, python, tuple(warm), fork, tuple(variables.items()), fit)
