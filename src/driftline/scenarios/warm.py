"""Imports what workers of scripts need, before they are forked."""

from __future__ import annotations


def warm_scripts(backend: str) -> None:
    """Import the recorder and compile something small: the first compilation of a process takes seconds.

    No gradient is computed: where torch has been built for GPUs, a process that was forked after the first backward
    pass of its parent cannot make one.
    """
    import torch
    import torch._dynamo
    import torch._inductor.config

    import driftline.scenarios.play  # noqa: F401

    torch.compile(lambda x: (x.sin() + 1).sum(), backend=backend)(torch.ones(2))
    torch._dynamo.reset()
