"""PyTorch's own operator tests: the `OpInfo` table, with samples for every operator and dtype.

The table takes seconds to import, and belongs to PyTorch's tests rather than its interface: only this file uses it.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import torch

from driftline.core.tensors import DTYPES
from driftline.generate.base import NoProgram
from driftline.programs.source import seed_everything

# Random numbers or samples, memory that was never written, CUDA, arguments and results that are no plain values.
_LEFT_OUT = re.compile(
    r"rand.*|normal.*|uniform|cauchy|exponential|geometric|log_normal|bernoulli|multinomial|.*dropout.*|.*rrelu"
    r"|.*fractional_max_pool.*|(svd|pca)_lowrank|linalg\.lstsq:grad_oriented|(new_)?empty.*|resize_.*"
    r"|as_strided:partial_views|jiterator.*|torch\.ops\.aten\._(flash|efficient).*|item|equal|allclose|broadcast_shapes"
    r"|chalf|.*sparse.*|.*\.triplet_margin_with_distance_loss|.*\.linear_cross_entropy:chunked.*"
)

TESTED = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "uint16", "uint32",
    "uint64", "complex64", "complex128",
)  # fmt: skip
_MOST_SAMPLES = 200
_MOST_ELEMENTS = 1 << 14


@lru_cache(1)
def operators() -> dict[str, Any]:
    """Return the usable entries of PyTorch's table by name and variant. Importing the table takes seconds."""
    with quiet():
        from torch.testing._internal.common_methods_invocations import op_db
    found: dict[str, Any] = {}
    for op in op_db:
        name = op.name + (f":{op.variant_test_name}" if op.variant_test_name else "")
        if not _LEFT_OUT.fullmatch(op.name) and not _LEFT_OUT.fullmatch(name) and dtypes_of(op):
            found.setdefault(name, op)
    return found


@dataclass(frozen=True)
class ProposedCall:
    """The arguments of one call that the table proposes."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@lru_cache(4096)
def samples_of(name: str, dtype: str) -> tuple[ProposedCall, ...]:
    """Return the samples of an operator and dtype, always with the same numbers."""
    op = operators()[name]
    seed = int.from_bytes(hashlib.sha256(f"{name}/{dtype}".encode()).digest()[:4], "little")
    seed_everything(seed)
    found = []
    with quiet():
        try:
            for made in islice(op.sample_inputs("cpu", getattr(torch, dtype), set_seed=False), _MOST_SAMPLES):
                seed_everything(seed)  # for the next one: their order may differ, their numbers must not
                sample = ProposedCall((made.input, *made.args), dict(made.kwargs))
                tensors = list(tensors_in([sample.args, sample.kwargs]))
                if all(_usable(tensor) for tensor in tensors):
                    found.append(sample)
        except Exception as error:
            raise NoProgram(f"the table itself fails for {name} and {dtype}: {error}") from error
    return tuple(sorted(found, key=_sorting_key))


def _sorting_key(sample: ProposedCall) -> str:
    """Return a text to sort samples by: some come from sets of strings, whose order differs between processes."""

    def described(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return (dtype_name(value.dtype), tuple(value.shape), value.stride())
        if isinstance(value, (tuple, list)):
            return [described(item) for item in value]
        if isinstance(value, dict):
            return sorted((str(key), described(item)) for key, item in value.items())
        return value if isinstance(value, (int, float, str)) else type(value).__name__

    return repr(described((sample.args, sample.kwargs)))


def _usable(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout == torch.strided
        and type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == "cpu"
        and dtype_name(tensor.dtype) in DTYPES
        and tensor.numel() <= _MOST_ELEMENTS
    )


def twin(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy in its own memory with the same layout."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    storage = tensor.untyped_storage().clone()
    empty = torch.empty(0, dtype=tensor.dtype)
    return empty.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def dtypes_of(op: Any) -> list[str]:
    """Return the dtypes that an entry of the table supports."""
    supported = {dtype_name(dtype) for dtype in op.dtypes}
    return [dtype for dtype in TESTED if dtype in supported]


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype)[6:]


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings inside the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
