"""Weights and inputs that are the same bits on every machine: drawn by numpy, never by a framework.

torch's generators give other last bits with other vector units. Here every number is a difference of two uniform
float32 draws, which IEEE arithmetic makes the same everywhere. The scales keep the activations of a deep network
alive, so that a wrong layer shows in the output.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from math import prod, sqrt
from typing import Any

import numpy as np
import torch

DrawArray = Callable[[str, tuple[int, ...]], np.ndarray[Any, Any]]


def generator(key: str) -> np.random.Generator:
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))


def noise(key: str, shape: tuple[int, ...], std: float = 1.0, mean: float = 0.0) -> np.ndarray[Any, Any]:
    """Symmetric float32 noise within 2.45 standard deviations of the mean."""
    rng = generator(key)
    drawn = rng.random(shape, dtype=np.float32)
    drawn -= rng.random(shape, dtype=np.float32)
    drawn *= np.float32(std * sqrt(6.0))
    drawn += np.float32(mean)
    return drawn


def floats(key: str, *shape: int, std: float = 1.0, mean: float = 0.0) -> torch.Tensor:
    return torch.from_numpy(noise(key, shape, std, mean))


def integers(key: str, *shape: int, low: int = 0, high: int) -> torch.Tensor:
    """Whole numbers, `high` excluded."""
    return torch.from_numpy(generator(key).integers(low, high, shape))


def mask(batch: int, length: int, *, padding: int, left: bool = False) -> torch.Tensor:
    """An attention mask whose last row has `padding` places of padding: on the right, or on the left for decoders."""
    made = torch.ones(batch, length, dtype=torch.int64)
    if padding:
        made[-1, :padding] = 0 if left else 1
        made[-1, length - padding :] = 1 if left else 0
    return made


def initialise(module: Any, special: Mapping[str, DrawArray] | None = None) -> Any:
    """Give every weight and statistic of `module` seeded values; `special` has draws by the end of the weight's name.

    Returns the module, in evaluation mode.
    """
    owners = dict(module.named_modules())
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            owner = owners[name.rpartition(".")[0]]
            value = _special(name, special or {}, tuple(parameter.shape))
            if value is None:
                value = _weight(name, owner, tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(value))
        for name, buffer in module.named_buffers():
            if buffer.is_floating_point():
                buffer.copy_(torch.from_numpy(_statistic(name, buffer)))
    return module.eval()


def _special(name: str, special: Mapping[str, DrawArray], shape: tuple[int, ...]) -> np.ndarray[Any, Any] | None:
    for ending, draw in special.items():
        if name.endswith(ending):
            return np.asarray(draw(name, shape), np.float32)
    return None


def _weight(name: str, owner: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    kind, leaf = type(owner).__name__, name.rpartition(".")[2]
    if leaf.startswith("bias") or leaf.endswith("bias") or (len(shape) == 1 and "beta" in leaf):
        return noise(name, shape, 0.1)
    if len(shape) < 2:
        return noise(name, shape, 0.1, mean=1.0 if "Norm" in kind else 0.5)
    if "Embedding" in kind:
        return noise(name, shape, 0.5)
    return noise(name, shape, 1.0 / sqrt(_terms(kind, shape)))


def _terms(kind: str, shape: tuple[int, ...]) -> int:
    """How many products a number of the result is the sum of."""
    if kind == "Conv1D":  # GPT-2's name for a linear layer whose weight is stored the other way round
        return shape[0]
    if kind.startswith("Conv"):
        return prod(shape[1:])
    return shape[-1]


def _statistic(name: str, buffer: Any) -> np.ndarray[Any, Any]:
    if name.endswith("running_mean"):
        return noise(name, tuple(buffer.shape), 0.2)
    if name.endswith("running_var"):
        return noise(name, tuple(buffer.shape), 0.3, mean=1.25)
    return shortened(buffer.numpy())


def shortened(value: np.ndarray[Any, Any], bits: int = 14) -> np.ndarray[Any, Any]:
    """Rounded to a few bits: a table made with exp or sin has other last bits on other machines."""
    fraction, exponent = np.frexp(np.asarray(value, np.float64))
    return np.asarray(np.ldexp(np.round(fraction * 2.0**bits) / 2.0**bits, exponent), np.float32)
