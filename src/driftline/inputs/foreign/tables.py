"""Tables of numbers: the CSV that scripts for KLEE and FPGen make of test cases, and Driftline's own.

The scripts' CSV has a header `testfile,values` and rows of as many numbers as a test has; `0x1f` is an integer, not a
bit pattern. Driftline's own table has a row for each number, with its bits in hexadecimal beside the decimal value, so
that NaN and every dtype are stored exactly.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.tensors import DTYPES, Array, Arrays, numpy_dtype

PARSED = ["testfile", "values"]
OWN = ["sample", "input", "dtype", "shape", "index", "value", "bits"]
_WIDEST = 100_000  # characters of one cell
_MOST_AXES = 32
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,16}")


def is_own(data: bytes) -> bool:
    """True if the data is a table that `write_own` wrote."""
    return data.lstrip(b"\xef\xbb\xbf").startswith(b"sample,input,dtype")


def read_parsed(data: bytes, where: str) -> dict[str, list[float]]:
    """Read a table of test cases. Returns the numbers of each test by the name of its file."""
    rows = _rows(data, where)
    head = next(rows, None)
    if head is None or [cell.strip() for cell in head[:2]] != PARSED:
        raise DriftlineError(f"{where} is not a table of test cases: its first line must be testfile,values.")
    found: dict[str, list[float]] = {}
    for number, row in enumerate(rows, 2):
        if not row:
            continue
        name, *cells = row
        if name in found:
            raise DriftlineError(f"{where}, line {number}: the test {name[:60]!r} is there twice.")
        found[name] = [_number(cell, where, number) for cell in cells if cell.strip()]
    if not found:
        raise DriftlineError(f"{where} has no test cases: there is nothing below its first line.")
    return found


def _number(cell: str, where: str, line: int) -> float:
    text = cell.strip()
    try:
        if text.lower().lstrip("+-").startswith("0x") and "p" not in text.lower():
            return float(int(text, 16))
        return float.fromhex(text) if "0x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        raise DriftlineError(f"{where}, line {line}: {text[:40]!r} is not a number.") from None


def read_own(data: bytes, where: str) -> list[Arrays]:
    """Read a table that `write_own` wrote. Returns one set of arrays for each sample."""
    rows = _rows(data, where)
    if next(rows, None) != OWN:
        raise DriftlineError(f"{where} is not a table of inputs: its first line must be {','.join(OWN)}.")
    samples: dict[int, Arrays] = {}
    seen: dict[tuple[int, str], set[int]] = {}
    for line, row in enumerate(rows, 2):
        if not row:
            continue
        if len(row) != len(OWN):
            raise DriftlineError(f"{where}, line {line}: it has {len(row)} cells instead of {len(OWN)}.")
        sample, name, dtype, shape, index, _, bits = row
        array = samples.setdefault(_whole(sample, where, line), {})
        key = (int(sample), name)
        if name not in array:
            array[name] = _empty(dtype, shape, len(data), where, line)
        held = array[name]
        if held.dtype.name != dtype or _text(held.shape) != shape:
            raise DriftlineError(f"{where}, line {line}: {name[:60]!r} has another dtype or shape than before.")
        place, pattern = _whole(index, where, line), _pattern(bits, where, line)
        if place >= held.size or pattern >= 1 << 8 * held.dtype.itemsize:
            raise DriftlineError(f"{where}, line {line}: the index or the bits do not fit {dtype}[{shape}].")
        seen.setdefault(key, set()).add(place)
        held.reshape(-1).view(f"u{held.dtype.itemsize}")[place] = pattern
    for (number, name), places in seen.items():
        if len(places) != samples[number][name].size:
            raise DriftlineError(f"{where}: {name[:60]!r} of sample {number} has only {len(places)} of its numbers.")
    if sorted(samples) != list(range(len(samples))) or not samples:
        raise DriftlineError(f"{where}: samples must be numbered 0, 1, 2 and so on, and there must be one.")
    return [samples[number] for number in sorted(samples)]


def write_own(samples: list[Arrays], where: str) -> bytes:
    """Write samples as a table with one row for each number. Complex arrays are refused."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(OWN)
    for number, arrays in enumerate(samples):
        for name, array in arrays.items():
            if array.dtype.name not in _BITS:
                raise DriftlineError(f"{where}: {name!r} is {array.dtype}, which a table cannot hold; write .npz.")
            patterns = np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")
            for index, (value, pattern) in enumerate(zip(array.reshape(-1), patterns, strict=True)):
                bits = f"0x{int(pattern):0{2 * array.dtype.itemsize}x}"
                writer.writerow([number, name, array.dtype.name, _text(array.shape), index, _decimal(value), bits])
    return text.getvalue().encode()


_BITS = tuple(name for name in DTYPES if not name.startswith("complex"))


def _decimal(value: object) -> str:
    number = float(value)  # type: ignore[arg-type]
    return repr(number) if not number.is_integer() or math.isinf(number) or abs(number) >= 2**53 else f"{number:g}"


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _empty(dtype: str, shape: str, room: int, where: str, line: int) -> Array:
    sizes = [_whole(size, where, line) for size in shape.split("x")] if shape else []
    if dtype not in _BITS:
        raise DriftlineError(f"{where}, line {line}: {dtype[:40]!r} is not a dtype of tensors.")
    if len(sizes) > _MOST_AXES or math.prod(sizes) > room:  # each number takes a line
        raise DriftlineError(f"{where}, line {line}: the shape {shape[:60]} has more numbers than the file.")
    return np.zeros(sizes, numpy_dtype(dtype))


def _whole(text: str, where: str, line: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise DriftlineError(f"{where}, line {line}: {text[:40]!r} is not a number of 0 or more.")
    return int(text)


def _pattern(text: str, where: str, line: int) -> int:
    if not _HEXADECIMAL.fullmatch(text):
        raise DriftlineError(f"{where}, line {line}: {text[:40]!r} are not bits in hexadecimal, such as 0x3f800000.")
    return int(text, 16)


def _rows(data: bytes, where: str) -> Iterator[list[str]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DriftlineError(f"{where} is not a table: it is not text.") from None
    csv.field_size_limit(_WIDEST)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        yield from reader
    except csv.Error as error:
        raise DriftlineError(f"{where}, line {reader.line_num}: it is not CSV ({error}).") from None
