"""Writes arrays as Python text that gives the same bits: a few values as literals, many as a short formula if there is
one, and packed otherwise."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable, Iterator

import numpy as np

from driftline.core.tensors import Array, is_float, numpy_dtype
from driftline.programs.number_formulas import all_but_one, formula_of

WRITTEN_OUT = 200  # elements
READ_AT_ONCE = 8  # elements: more are written as a formula where there is one
LINE = 100  # characters of packed text
# Types of numpy that make an array of a list; uint64 is not among them, since large integers may become floats first.
_CALLED = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")

# The code that packed text needs in a script
UNPACK = '''\
def unpack(text, dtype, shape):
    """An array from the compressed bytes of its elements."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype).reshape(shape).copy()
'''


class Literals:
    """Writes arrays for one script, for `torch` or `numpy`. `room`: the total of characters for packed arrays; below
    zero every array is drawn from a seed. `brief`: write np.float32([1.0, np.nan]); otherwise the script must define
    the names nan and inf."""

    def __init__(self, flavour: str, room: int, *, brief: bool = False) -> None:
        self._torch = flavour == "torch"
        self._room = room
        self._brief = brief
        self.packed = False
        self.needs_numpy = False  # in a script of torch
        self.left_out: list[str] = []

    def expression(self, name: str, array: Array, indent: str = "    ") -> str:
        """Return an expression for the array that uses np or torch, nan and inf."""
        shape = tuple(int(size) for size in array.shape)
        flat = array.reshape(-1)
        if array.dtype.kind in "OSU":
            return f"np.array({[str(text) for text in flat.tolist()]}, dtype=object).reshape({shape})"
        dtype = self._dtype(array.dtype.name)
        if array.size == 0:
            return f"{self._module}.zeros({shape}, dtype={dtype})"
        if array.size > 8 and _constant(flat):
            return f"{self._module}.{_filled(flat[0], shape, self._named)}, dtype={dtype})"
        if array.size > READ_AT_ONCE and self._room >= 0 and (made := self._formula(array, shape, dtype)):
            return made
        if array.size <= WRITTEN_OUT and self._room >= 0:
            numbers = self._named(_nested(array, indent))
            if self._brief and not self._torch and array.ndim and array.dtype.name in _CALLED:
                return f"{dtype}({numbers})"
            make = "torch.tensor" if self._torch else "np.array"
            return f"{make}({numbers}, dtype={dtype})"
        return self._pack(name, array, shape, dtype, indent)

    def _formula(self, array: Array, shape: tuple[int, ...], dtype: str) -> str:
        """Return a short expression for the array, or an empty text if there is none."""
        if found := formula_of(array):
            formula, seed = found
            made, same = formula.expression(shape, seed), formula.dtype == array.dtype.name
        elif (at := all_but_one(array)) is not None and self._brief and array.dtype.kind in "fiub":
            flat = array.reshape(-1)
            usual = int(flat[0 if at else 1])
            odd = re.sub(r"nan|inf", r"np.\g<0>", _scalar(flat[at]))
            made, same = f"np.where(np.arange({array.size}).reshape({shape}) == {at}, {odd}, {usual})", False
        else:
            return ""
        if not self._torch:
            return made if same else f"{made}.astype({dtype})"
        self.needs_numpy = True
        return f"torch.from_numpy({made})" if same else f"torch.from_numpy({made}).to({dtype})"

    def _pack(self, name: str, array: Array, shape: tuple[int, ...], dtype: str, indent: str) -> str:
        text = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()
        if len(text) > self._room:
            self.left_out.append(f"{name} ({array.size:,} values)")
            return self._stand_in(array, shape, dtype)
        self._room -= len(text)
        self.packed = self.needs_numpy = True
        lines = "".join(f'\n{indent}    "{part}"' for part in _cut(text))
        if not self._torch:
            return f"unpack({lines},\n{indent}    {dtype}, {shape})"
        bits = _bits(array.dtype.name)
        view = "" if bits == array.dtype.name else f".view({dtype})"
        return f"torch.from_numpy(unpack({lines},\n{indent}    np.{bits}, {shape})){view}"

    def _stand_in(self, array: Array, shape: tuple[int, ...], dtype: str) -> str:
        """Return an expression for random values of the same dtype and range, in place of values too many to print."""
        self.needs_numpy = True
        draw = "np.random.default_rng(0)"
        if is_float(array.dtype.name) or array.dtype.kind == "c":
            made = f"{draw}.standard_normal({shape})"
        else:
            low, high = int(array.min()), int(array.max())
            made = f"{draw}.integers({low}, {high}, {shape}, endpoint=True)"
        return f"torch.from_numpy({made}).to({dtype})" if self._torch else f"{made}.astype({dtype})"

    def _named(self, numbers: str) -> str:
        return re.sub(r"nan|inf", rf"{self._module}.\g<0>", numbers) if self._brief else numbers

    @property
    def _module(self) -> str:
        return "torch" if self._torch else "np"

    def _dtype(self, name: str) -> str:
        if self._torch:
            return f"torch.{name}"
        return f"np.{name}" if hasattr(np, name) else f"ml_dtypes.{name}"


def _cut(text: str) -> Iterator[str]:
    for start in range(0, len(text), LINE):
        yield text[start : start + LINE]


def _bits(dtype: str) -> str:
    """Return the numpy dtype that carries the bits of a dtype; an unsigned integer if numpy does not have the dtype."""
    if hasattr(np, dtype):
        return dtype
    return f"uint{8 * numpy_dtype(dtype).itemsize}"


def _constant(flat: Array) -> bool:
    bits = np.ascontiguousarray(flat).view(np.uint8).reshape(flat.size, -1)
    return bool((bits == bits[0]).all())


def _filled(value: object, shape: tuple[int, ...], named: Callable[[str], str]) -> str:
    """Return the beginning of a call that makes an array of one number; the dtype follows."""
    text = _scalar(value)
    plain = {"0": "zeros", "0.0": "zeros", "1": "ones", "1.0": "ones"}.get(text)
    return f"{plain}({shape}" if plain else f"full({shape}, {named(text)}"


def _nested(array: Array, indent: str) -> str:
    """Return nested lists, with one row per line if they do not fit into one line."""
    if array.ndim == 0:
        return _scalar(array[()])
    if array.ndim == 1:
        return "[" + ", ".join(_scalar(value) for value in array) + "]"
    rows = [_nested(row, indent + "    ") for row in array]
    line = "[" + ", ".join(rows) + "]"
    if len(line) <= LINE - len(indent) and "\n" not in line:
        return line
    return "[" + "".join(f"\n{indent}    {row}," for row in rows) + f"\n{indent}]"


def _scalar(value: object) -> str:
    """Return the shortest text that reads back to the same value."""
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return f"complex({_scalar(array.real)}, {_scalar(array.imag)})"
    if array.dtype.kind == "b":
        return str(bool(value))
    if not is_float(array.dtype.name):
        return str(int(array))
    wide = float(array)
    if array.dtype.name in ("float32", "float16") and np.isfinite(wide):
        short = str(array[()])  # of its own precision; as a double it may be a little off, but rounds back
        if float(short) != wide and array.dtype.type(float(short)) != array[()]:
            return repr(wide)
        return short
    return repr(wide)
