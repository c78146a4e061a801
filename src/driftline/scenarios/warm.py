"""Imports what workers of scripts need, before they are forked."""

from __future__ import annotations


def warm_scripts(backend: str) -> None:
    """Import the recorder and compile something small: the first compilation of a process takes seconds."""
    import torch
    import torch._dynamo
    import torch._inductor.config

    import driftline.scenarios.play  # noqa: F401

    example = torch.ones(2, requires_grad=True)
    torch.compile(lambda x: (x.sin() + 1).sum(), backend=backend)(example).backward()
    torch._dynamo.reset()
