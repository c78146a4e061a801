"""Convert between files of inputs: .npz, .safetensors, KLEE's .ktest, FPGen's float128 files, and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.private import write_private
from driftline.core.tensors import Array, Arrays, TensorSpec, in_bytes, is_float, numpy_dtype, save_tensors
from driftline.core.text import did_you_mean
from driftline.inputs.files import read_arrays
from driftline.inputs.foreign.float128 import read_float128, rounded, write_float128
from driftline.inputs.foreign.ktest import read_ktest, write_ktest
from driftline.inputs.foreign.tables import is_own, read_own, read_parsed, write_own
from driftline.inputs.room import ROOM
from driftline.inputs.symbolic.formats import FORMATS

FPGEN = "-input"  # how the names of FPGen's files end
KINDS = {
    ".npz": "numpy archive",
    ".safetensors": "safetensors",
    ".ktest": "KLEE test case",
    ".csv": "table",
    ".float128": "FPGen's 128-bit floats",
}
_ONE = "input"  # the name of an array that has none in the file
_LARGEST = 256 << 20  # bytes of a foreign file


def kind_of(path: Path) -> str:
    """Return the suffix (a key of `KINDS`) for the format of a file. FPGen's files have no suffix of their own and
    return `.float128`."""
    if path.name.endswith(FPGEN):
        return ".float128"
    if path.suffix not in KINDS:
        raise DriftlineError(
            f"{path}: the kind of file is told by its name, which ends in {', '.join(KINDS)} or {FPGEN} (FPGen)."
        )
    return path.suffix


def read_samples(path: Path, specs: Sequence[TensorSpec] = ()) -> list[Arrays]:
    """Read the samples of a file. `specs` give the types of untyped bytes or numbers; a table may hold several
    samples."""
    kind = kind_of(path)
    if not path.is_file():
        what = "it is a folder; name a file" if path.is_dir() else "there is no such file"
        raise DriftlineError(f"{path}: {what}.")
    if kind in (".npz", ".safetensors"):
        return [_chosen(read_arrays(path, specs, ROOM), specs, str(path))]
    data = _bytes_of(path)
    if kind == ".ktest":
        return [_of_objects(read_ktest(data, str(path)).objects, specs, str(path))]
    if kind == ".csv" and is_own(data):
        return [_chosen(arrays, specs, str(path)) for arrays in read_own(data, str(path))]
    if kind == ".csv":
        return [
            _laid_out([float(v) for v in values], specs, f"{path}, {name[:60]}")
            for name, values in read_parsed(data, str(path)).items()
        ]
    wanted = {spec.dtype for spec in specs} or {"float64"}
    exact = read_float128(data, str(path))
    if wanted <= set(FORMATS):  # in one rounding
        ends = np.cumsum([_size(spec) for spec in specs]) if specs else np.array([len(exact)])
        forms = [FORMATS[spec.dtype] for spec in specs] or [FORMATS["float64"]]
        numbers = [
            rounded(value, forms[min(int(np.searchsorted(ends, at, side="right")), len(forms) - 1)])
            for at, value in enumerate(exact)
        ]
        return [_laid_out(numbers, specs, str(path))]
    raise DriftlineError(f"{path} holds floats; --spec must name a float dtype, such as {_ONE}:float32[{len(exact)}].")


def _bytes_of(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > _LARGEST:
            raise DriftlineError(f"{path} has {in_bytes(size)}; files of other tools may have {in_bytes(_LARGEST)}.")
        return path.read_bytes()
    except OSError as error:
        raise DriftlineError(f"{path} cannot be read: {error.strerror}.") from error


def _size(spec: TensorSpec) -> int:
    return int(np.prod(spec.shape, dtype=np.int64))


def _chosen(arrays: Arrays, specs: Sequence[TensorSpec], where: str) -> Arrays:
    """Return the arrays that `specs` name, after checking their dtypes and shapes; all arrays if there are no specs."""
    if not specs:
        return arrays
    for spec in specs:
        held = arrays.get(spec.name)
        if held is None:
            raise DriftlineError(
                f"{where}: there is no {spec.name!r} in it.{did_you_mean(spec.name, arrays)}"
                f" It has {', '.join(arrays)}."
            )
        if held.dtype.name != spec.dtype or held.shape != spec.shape:
            raise DriftlineError(f"{where}: {spec.name!r} is {held.dtype}{list(held.shape)}, and --spec says {spec}.")
    return {spec.name: arrays[spec.name] for spec in specs}


def _of_objects(objects: Mapping[str, bytes], specs: Sequence[TensorSpec], where: str) -> Arrays:
    """Interpret raw little-endian memory as the tensors of `specs`."""
    has = ", ".join(f"{name!r} ({len(data)} bytes)" for name, data in list(objects.items())[:8]) or "nothing"
    if not specs:
        raise DriftlineError(
            f"{where} holds bytes without a type: {has}. Say what they are, as in --spec input:float32[3]."
        )
    found: Arrays = {}
    for spec in specs:
        if spec.name not in objects:
            raise DriftlineError(
                f"{where}: there is no object {spec.name!r} in it.{did_you_mean(spec.name, objects)} It has {has}."
            )
        dtype = numpy_dtype(spec.dtype)
        data = objects[spec.name]
        if len(data) != _size(spec) * dtype.itemsize:
            raise DriftlineError(
                f"{where}: {spec.name!r} has {len(data)} bytes, and {spec} takes {_size(spec) * dtype.itemsize}."
            )
        found[spec.name] = np.frombuffer(data, dtype).reshape(spec.shape).copy()
    return found


def _laid_out(numbers: Sequence[float], specs: Sequence[TensorSpec], where: str) -> Arrays:
    """Split a list of numbers into the tensors of `specs`, one after the other. Without specs, return one float64
    array."""
    if not specs:
        return {_ONE: np.array(numbers, np.float64)}
    wanted = sum(map(_size, specs))
    if wanted != len(numbers):
        raise DriftlineError(f"{where} has {len(numbers)} numbers, and --spec takes {wanted}.")
    found: Arrays = {}
    at = 0
    for spec in specs:
        part = np.array(numbers[at : at + _size(spec)], np.float64)
        at += len(part)
        with np.errstate(all="ignore"):
            if not is_float(spec.dtype) and not np.array_equal(part, part.astype(numpy_dtype(spec.dtype))):
                raise DriftlineError(f"{where}: not all numbers of {spec.name!r} are {spec.dtype}; give a float dtype.")
            found[spec.name] = part.astype(numpy_dtype(spec.dtype)).reshape(spec.shape)
    return found


def write_samples_as(path: Path, samples: Sequence[Arrays]) -> list[Path]:
    """Write the samples in the format of the path's name. Formats that hold one sample get one numbered file for
    each."""
    kind = kind_of(path)
    if kind == ".csv":
        write_private(path, [write_own(list(samples), str(path))])
        return [path]
    written = []
    for number, arrays in enumerate(samples):
        place = _numbered(path, number)
        _write_one(place, kind, arrays)
        written.append(place)
    return written


def _numbered(path: Path, number: int) -> Path:
    """Return the path of sample `number`: `bad.npz`, `bad-2.npz`; `test000001-input`, `test000001-2-input`."""
    if not number:
        return path
    if path.name.endswith(FPGEN):
        return path.with_name(f"{path.name.removesuffix(FPGEN)}-{number + 1}{FPGEN}")
    return path.with_name(f"{path.stem}-{number + 1}{path.suffix}")


def _write_one(path: Path, kind: str, arrays: Arrays) -> None:
    if kind == ".safetensors":
        save_tensors(path, arrays)
    elif kind == ".npz":
        with open(path, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    elif kind == ".ktest":
        write_private(path, [write_ktest({name: _little(array) for name, array in arrays.items()})])
    else:
        odd = next((name for name, array in arrays.items() if not is_float(array.dtype.name)), None)
        if odd is not None:
            raise DriftlineError(f"{path}: FPGen's files hold floats, and {odd!r} is {arrays[odd].dtype}.")
        write_private(path, [write_float128(array) for array in arrays.values()])


def _little(array: Array) -> bytes:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<") if array.dtype.isbuiltin == 1 else None).tobytes()
