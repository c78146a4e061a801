"""Read tensors after an event: their properties, their bytes, and which of them overlap in memory. Runs in a worker."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from driftline.scenarios.recording import TensorSeen

PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
MOST_PAIRS = 200  # most overlapping pairs kept per event
MOST_BYTES = 1 << 30  # most bytes of tensors kept per run


class Contents:
    """The file with the bytes of all tensors of a run. Equal bytes are written once."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 - open as long as the process
        self._places: dict[bytes, int] = {}
        self._end = 0

    def keep(self, data: memoryview | bytes) -> tuple[int, str]:
        """Store the bytes and return their offset and digest. The offset is -1 if the file has no more room."""
        digest = hashlib.blake2b(data, digest_size=16).digest()
        at = self._places.get(digest)
        if at is None:
            if self._end + len(data) > MOST_BYTES:
                return -1, digest.hex()
            at = self._places[digest] = self._end
            self._file.write(data)
            self._end += len(data)
        return at, digest.hex()

    def flush(self) -> None:
        self._file.flush()


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """A context for reading tensors as they are, without modes of the script, of torch.func or of the recorder."""
    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
        yield


def see_tensor(tensor: torch.Tensor, contents: Contents) -> TensorSeen:
    """Describe a tensor and store its bytes, inside `reading()`. Tensors that cannot be read (meta, wrappers of
    torch.func) are described without bytes."""
    requires_grad, data = False, None
    with contextlib.suppress(Exception):  # fails for a view that was written in place
        requires_grad = tensor.requires_grad
    with contextlib.suppress(Exception):
        data = _bytes_of(tensor)
    at, digest = (-1, "") if data is None else contents.keep(data)
    try:
        shape = tuple(int(size) for size in tensor.shape)
    except Exception:
        shape = ()
    return TensorSeen(
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=shape,
        kind=type(tensor).__qualname__,
        device=tensor.device.type,
        layout=str(tensor.layout).removeprefix("torch."),
        requires_grad=requires_grad,
        at=at,
        digest=digest,
    )


def see_array(array: np.ndarray[Any, Any], contents: Contents) -> TensorSeen:
    """Describe a numpy array and store its bytes."""
    at, digest = (-1, "") if array.dtype.hasobject else contents.keep(np.ascontiguousarray(array).tobytes())
    return TensorSeen(array.dtype.name, array.shape, type(array).__qualname__, at=at, digest=digest)


def _bytes_of(tensor: torch.Tensor) -> memoryview | bytes | None:
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor) or tensor.is_quantized or tensor.is_nested:
        return None
    plain = tensor.detach()
    if type(tensor) not in PLAIN:
        plain = plain.as_subclass(torch.Tensor)
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    if not plain.numel():
        return b""
    flat = plain.resolve_conj().resolve_neg().cpu().reshape(-1).contiguous()
    return memoryview(flat.view(torch.uint8).numpy()).cast("B")


def overlapping(tensors: Sequence[tuple[str, torch.Tensor]]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of paths whose tensors overlap in memory, in the order of the walk."""
    by_storage: dict[int, list[tuple[str, int, int]]] = {}
    pairs: list[tuple[str, str]] = []
    for path, tensor in tensors:
        place = _extent(tensor)
        if place is None:
            continue
        storage, first, last = place
        others = by_storage.setdefault(storage, [])
        pairs += [(other, path) for other, begin, end in others if first <= end and begin <= last]
        others.append((path, first, last))
        if len(pairs) >= MOST_PAIRS:
            break
    return tuple(pairs[:MOST_PAIRS])


def _extent(tensor: torch.Tensor) -> tuple[int, int, int] | None:
    """Return the address of the storage, and the first and last byte of the tensor in it, or `None` without storage."""
    try:
        if tensor.layout != torch.strided or not tensor.numel():
            return None
        storage = tensor.untyped_storage().data_ptr()
        size = tensor.element_size()
        first = tensor.storage_offset() * size
        reach = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    except Exception:  # a wrapper without storage
        return None
    return (storage, first, first + (reach + 1) * size - 1) if storage else None
