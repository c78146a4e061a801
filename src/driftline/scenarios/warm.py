"""Import the modules that workers of scripts need, before the workers are forked."""

from __future__ import annotations


def warm_scripts(backend: str) -> None:
    """Import the recorder and compile a small function, because the first compilation in a process takes seconds.

    No gradient is computed: with a build of torch for GPUs, a process that was forked after its parent's first backward
    pass cannot compute gradients.
    """
    import torch
    import torch._dynamo
    import torch._inductor.config

    import driftline.scenarios.play  # noqa: F401

    torch.compile(lambda x: (x.sin() + 1).sum(), backend=backend)(torch.ones(2))
    torch._dynamo.reset()
