"""`driftline cluster`."""

from __future__ import annotations

import json

import click


@click.group()
def cluster() -> None:
    """Prepare the nodes of a Ray cluster for `driftline hunt --cluster`.

    Every node needs the same release of Driftline, and the compilers that it is to try.
    """


@cluster.command()
def resources() -> None:
    """Print which compilers this machine has, as JSON for `ray start --resources`.

    Ray then gives programs for a compiler only to nodes that have it in the release that is hunted on. On a cluster
    where no node says what it has, any node gets any program.

    \b
      ray start --head --resources "$(driftline cluster resources)"
      ray start --address HEAD:6379 --resources "$(driftline cluster resources)"
      driftline hunt --cluster HEAD:6379 --budget 1h
    """
    from driftline.cluster.resources import resources_here

    click.echo(json.dumps(resources_here(), sort_keys=True))
