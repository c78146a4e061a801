"""A Ray cluster for the length of a hunt: one that runs already, or nodes on this machine.

Ray is an extra (`pip install driftline[cluster]`) and is imported here and in `ray_crew.py` only.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from driftline.campaign.hunt.crew import Crew
from driftline.causes import Library
from driftline.cluster.node import release_here
from driftline.cluster.resources import resources_here
from driftline.core.errors import DriftlineError
from driftline.core.packages import extra_command
from driftline.store import Store

_LOCAL = re.compile(r"local:([1-9]\d?)")
_ADDRESS = re.compile(r"(ray://)?(?!local:)[\w.\-\[\]:]+:\d+|auto")
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
OBJECTS = 128 << 20  # bytes for the objects of a local node: programs and verdicts are small
JOINING = 120.0  # seconds within which a node has to answer


@dataclass(frozen=True)
class ClusterAddress:
    """The address of a cluster: `local:N` starts N nodes on this machine, anything else names a running cluster."""

    text: str

    @staticmethod
    def parse(text: str) -> ClusterAddress:
        if _LOCAL.fullmatch(text) or _ADDRESS.fullmatch(text):
            return ClusterAddress(text)
        raise DriftlineError(
            f"--cluster {text}: give ray://HOST:10001 or HOST:6379 of a Ray cluster, auto for the one that this machine"
            " belongs to, or local:2 for two nodes on this machine."
        )

    @property
    def local_nodes(self) -> int:
        found = _LOCAL.fullmatch(self.text)
        return int(found[1]) if found else 0


def require_ray() -> None:
    if find_spec("ray") is None:
        raise DriftlineError(f"A cluster needs Ray, which is not installed: {extra_command('cluster')}")


@contextlib.contextmanager
def cluster_crew(address: ClusterAddress, cores: int, store: Store, library: Library | None) -> Iterator[Crew]:
    """Connect to the cluster at an address, or start it; yields its crew. Local nodes share `cores` of this machine."""
    require_ray()
    # What Ray would send home is nobody's business; and it warns about its own plans on every start.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if address.local_nodes:
        os.environ[_LOOPBACK] = "0"  # read when Ray is imported: its nodes then listen to this machine alone
        os.environ.setdefault("RAY_worker_niceness", "0")  # else other work of this machine would starve them
    import ray

    with contextlib.ExitStack() as stack:
        where = address.text
        if address.local_nodes:
            where = stack.enter_context(_local_nodes(address.local_nodes, cores))
        try:
            ray.init(address=where, log_to_driver=False, configure_logging=False, namespace="driftline")
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            said = str(error).strip().splitlines()
            raise DriftlineError(
                f"No Ray cluster answers at {address.text}: {said[0] if said else type(error).__name__}. Start one with"
                " `ray start --head`, or give --cluster local:2."
            ) from error
        stack.callback(ray.shutdown)
        _require_alike()
        from driftline.cluster.ray_crew import RayCrew

        yield RayCrew(store, library)


@contextlib.contextmanager
def _local_nodes(count: int, cores: int) -> Iterator[str]:
    from ray.cluster_utils import Cluster

    share = max(1, cores // count)
    node: dict[str, Any] = {"num_cpus": share, "resources": resources_here(), "object_store_memory": OBJECTS}
    cluster = Cluster(
        initialize_head=True, head_node_args={**node, "include_dashboard": False, "node_ip_address": "127.0.0.1"}
    )
    try:
        for _ in range(count - 1):
            cluster.add_node(**node, node_ip_address="127.0.0.1")
        yield cluster.address
    finally:
        cluster.shutdown()


def _require_alike() -> None:
    """Raise if a node has another release of Driftline: it would make other programs of the same seed."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ask = ray.remote(num_cpus=0, max_retries=3)(release_here)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    asked = {
        node["NodeID"]: ask.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote()
        for node in nodes
    }
    mine = release_here()
    for name, answer in asked.items():
        try:
            theirs: str = ray.get(answer, timeout=JOINING)
        except Exception as error:  # whatever its process could not import
            words = str(error).strip().splitlines()
            raise DriftlineError(
                f"The node {name} cannot run Driftline: {words[-1] if words else type(error).__name__}. Install the"
                " same release of driftline[cluster] there."
            ) from error
        if theirs != mine:
            raise DriftlineError(
                f"The node {name} has Driftline {theirs} and this machine {mine}; install the same release everywhere."
            )
