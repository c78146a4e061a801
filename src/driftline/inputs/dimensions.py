"""Names of dimensions: find them, resolve those that are sums of others, and choose sizes for those that are not fixed.

A name may be an expression of other names, as exporters write it (`past_sequence_length + sequence_length`); its size
then follows from theirs. A name like `total_sequence_length` is read in the same way if the model also has its parts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from driftline.core.tensors import ANY_SIZE, TensorSpec, is_float
from driftline.programs.known import Known

_BY_NAME = (
    (r"past|cache|kv", 8),
    (r"batch|^(bs|b|n|bsz)$", 2),
    (r"channel", 3),
    (r"height|width|image|pixel|^(h|w)$", 64),
    (r"seq|len|token|time|frame|step", 16),
)
_LONGEST = 200  # characters of a name that is read as an expression
_TOTAL = re.compile(r"total|^(attention_)?mask|key_len|kv_len|past_(and|plus)_|_(and|plus)_past")


def names_of(known: Known) -> list[str]:
    """Return every dimension name that is not an expression of other names, in the order of the inputs."""
    every = dict.fromkeys(name for dims in known.dims.values() for name in dims if name)
    return [name for name in every if expression(name, every) is None]


def expression(name: str, every: Mapping[str, object]) -> ast.expr | None:
    """Parse a name that is an arithmetic expression of the names in `every`. Returns None for any other name."""
    if len(name) > _LONGEST:
        return None
    try:
        tree = ast.parse(name, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    inner = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    legal = (ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Name, ast.Load, ast.Constant)
    if (
        isinstance(tree, ast.BinOp)
        and inner
        and inner <= set(every)
        and all(isinstance(n, legal) for n in ast.walk(tree))
        and all(type(n.value) is int for n in ast.walk(tree) if isinstance(n, ast.Constant))
    ):
        return tree
    return None


def evaluated(tree: ast.expr, sizes: Mapping[str, int]) -> int:
    """Return the value of an expression from `expression`."""
    if isinstance(tree, ast.Name):
        return sizes[tree.id]
    if isinstance(tree, ast.Constant):
        return int(str(tree.value))
    assert isinstance(tree, ast.BinOp)
    left, right = evaluated(tree.left, sizes), evaluated(tree.right, sizes)
    if isinstance(tree.op, ast.Add):
        return left + right
    if isinstance(tree.op, ast.Sub):
        return left - right
    return left * right if isinstance(tree.op, ast.Mult) else left // max(right, 1)


def size_of(text: str, sizes: Mapping[str, int]) -> int | None:
    """Return the size that a name, a number or an expression of names stands for, or None if it is unknown."""
    if text in sizes:
        return sizes[text]
    if text.lstrip("-").isdigit():
        return int(text)
    tree = expression(text, sizes)
    return evaluated(tree, sizes) if tree is not None else None


def past_name(names: Sequence[str]) -> str:
    """Return the dimension name of past positions (a key-value cache), or an empty string."""
    return next((name for name in names if "past" in name.lower() and not _TOTAL.search(name.lower())), "")


def total_of(name: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Return (past, new) if `name` is a total of past and new positions, else None."""
    past = past_name(names)
    parts = [n for n in names if n not in (past, name) and not _TOTAL.search(n.lower())]
    new = next((n for n in parts if re.search("seq|len|token", n.lower())), "")
    wanted = past and new and name != past and _TOTAL.search(name.lower())
    return (past, new) if wanted else None


def default_size(name: str, specs: Sequence[TensorSpec], known: Known) -> int:
    """Choose a size for a dimension, by its name or else its position, at most the limit of the graph."""
    size = next((size for pattern, size in _BY_NAME if re.search(pattern, name.lower())), 0)
    if not size:
        places = [(s, axis) for s in specs for axis, dim in enumerate(known.dims.get(s.name, ())) if dim == name]
        size = max(place_size(spec, axis) for spec, axis in places) if places else 4
    return min(size, known.limits.get(name, size))


def place_size(spec: TensorSpec, axis: int) -> int:
    """Choose a size for a dimension by its position: small for a batch, large for the height and width of an image."""
    rank = len(spec.shape)
    if axis == 0 and rank > 1:
        return 2
    if rank == 4 and is_float(spec.dtype):
        return 3 if axis == 1 else 64
    return 16 if rank in (2, 3) and axis == 1 else 4


def open_axes(spec: TensorSpec) -> list[int]:
    return [axis for axis, size in enumerate(spec.shape) if size == ANY_SIZE]
