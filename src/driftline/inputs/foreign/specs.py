"""Parse `--spec input:float32[3]`: the types of the bytes or numbers in a file that does not declare them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from driftline.core.errors import DriftlineError
from driftline.core.tensors import DTYPES, TensorSpec, bytes_of
from driftline.core.text import did_you_mean
from driftline.inputs.room import ROOM

_SPEC = re.compile(r"(?P<name>[^:\[\]]+):(?P<dtype>\w+)\[(?P<shape>[\d,x ]*)\]")


def parse_specs(texts: Sequence[str]) -> tuple[TensorSpec, ...]:
    """Parse specs, each as its own text or several joined with ';'."""
    found: dict[str, TensorSpec] = {}
    for text in (part.strip() for whole in texts for part in whole.split(";")):
        spec = _parsed(text)
        if spec.name in found:
            raise DriftlineError(f"--spec {text}: {spec.name!r} is given twice; keep one of them.")
        found[spec.name] = spec
    if bytes_of(list(found.values())) > ROOM:
        raise DriftlineError("--spec: the tensors take more than 1 GiB; give smaller shapes.")
    return tuple(found.values())


def _parsed(text: str) -> TensorSpec:
    match = _SPEC.fullmatch(text)
    if not match:
        raise DriftlineError(f"--spec {text}: write the name, dtype and shape of a tensor, as in input:float32[3].")
    dtype = match["dtype"]
    if dtype not in DTYPES:
        raise DriftlineError(f"--spec {text}: there is no dtype {dtype!r}.{did_you_mean(dtype, DTYPES)}")
    sizes = [size for size in re.split(r"[,x ]+", match["shape"].strip()) if size]
    if len(sizes) > 32 or any(len(size) > 12 for size in sizes):
        raise DriftlineError(f"--spec {text}: that shape is too large.")
    return TensorSpec(match["name"].strip(), dtype, tuple(map(int, sizes)))
