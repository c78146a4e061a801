"""The last step of building: the type that the model is deployed in, and a module that is ready to be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from driftline.core.structure import rebuild


def finished(module: Any, inputs: Mapping[str, Any], dtype: str) -> tuple[Any, Mapping[str, Any]]:
    """The module for inference, with weights and floating-point inputs in `dtype`."""
    if dtype in ("float16", "bfloat16"):
        wanted = getattr(torch, dtype)
        module = module.to(wanted)
        inputs = rebuild(dict(inputs), lambda name, leaf: leaf.to(wanted) if leaf.is_floating_point() else leaf)
    return module.eval(), inputs
