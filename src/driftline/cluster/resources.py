"""The compilers of a node as Ray resources, so that a program runs on a node with the release it is for."""

from __future__ import annotations

from collections.abc import Mapping

from driftline.backends import BACKENDS
from driftline.campaign.check.session import each_backend
from driftline.checking.checker import Skipped
from driftline.core.errors import DriftlineError
from driftline.core.target import Target

MANY = 1000.0  # the amount of a resource that only states that a node has it


def resource_of(target: Target) -> str:
    """Return the Ray resource name of a compiler in a release."""
    return f"{target.backend}-{target.version or BACKENDS.get(target.backend).version()}"


def resources_here() -> dict[str, float]:
    """Return the resources of a node with this interpreter's packages, for `ray start --resources`."""
    here = {}
    for target, backend in each_backend():
        if not isinstance(backend, Skipped) and backend.installed().available:
            here[resource_of(target)] = MANY
    return here


def pinned(target: Target, offered: Mapping[str, float]) -> dict[str, float]:
    """Return the resources that a node must have for a target; empty if no node declares any release of its
    compiler."""
    told = sorted(name for name in offered if name.startswith(f"{target.backend}-"))
    wanted = resource_of(target)
    if told and wanted not in told:
        raise DriftlineError(
            f"No node of the cluster has {wanted.replace('-', ' ', 1)}; there are: {', '.join(told)}."
            " Start one with `ray start --resources` and what `driftline cluster resources` prints there."
        )
    return {wanted: 1.0} if told else {}
