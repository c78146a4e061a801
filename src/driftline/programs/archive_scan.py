"""Finds what loading a torch.export archive (.pt2) or a TorchScript file (.pt) would execute, without loading it.

An archive is a ZIP file with the graph as JSON and tensors as bytes. It may hold pickles: example inputs, constants and
custom objects. `torch.export.load` unpickles them, which calls any function that they name. This module reports every
name that tensors do not need (`pickle_scan.py`) and every text in the graph that torch would evaluate
(`archive_graph.py`), and refuses archives that torch may read differently than Python (`plain_zip.py`). A part is
scanned whatever its name suggests, unless torch never unpickles it.
"""

from __future__ import annotations

import io
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from driftline.core.errors import DriftlineError
from driftline.core.quoting import one_line
from driftline.core.vouched import vouch
from driftline.programs.archive_graph import suspects_in_graph
from driftline.programs.pickle_scan import UnreadablePickle, names_in
from driftline.programs.plain_zip import require_plain_zip
from driftline.programs.torchscript_file import ORIGINAL, decoded

_BIG = 256 << 20  # bytes of a part that is unpacked in memory; tensors may be larger, pickles are not
_DEEP = 3  # archives in archives
# The names that torch.save writes for tensors, sizes, dtypes and plain containers.
_ALLOWED = re.compile(
    r"collections (OrderedDict|defaultdict)|copyreg (_reconstructor|__newobj__)|_codecs encode"
    r"|(builtins|__builtin__) (object|set|frozenset|slice|complex|bytearray|list|dict|tuple|int|float|bool)"
    r"|torch\._utils _rebuild_(tensor|tensor_v2|tensor_v3|parameter|parameter_with_state|qtensor|sparse_tensor)"
    r"|torch\._utils _rebuild_(meta_tensor_no_storage|nested_tensor|wrapper_subclass|device_tensor_from_numpy)"
    r"|torch\._tensor _rebuild_from_type_v2|torch\.nn\.parameter (Parameter|Buffer)|torch\.serialization _get_layout"
    r"|torch\.storage (UntypedStorage|TypedStorage)|torch (Size|Tensor|device|dtype|\w+Storage)"
    r"|torch (b?float\d*\w*|half|double|u?int\d+|long|short|bool|complex\d+|chalf|cfloat|cdouble|q?u?int\d+(x\d)?)"
    r"|transformers\.cache_utils \w*(Cache|Layer)"  # key-value caches among the example inputs
)
_OWN_CLASSES = re.compile(r"__torch__[\w.]*|torch\.jit\._pickle\.\w+")  # the names in TorchScript's pickles
_PLAIN = re.compile(
    r"([^/]*/)?(archive_format|archive_version|byteorder|version|\.data/.*|\.format_version|\.storage_.*)"
)
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError)
_trusted = False


def trust(given: bool) -> None:
    """Say whether the user vouches for the files of this run (`--trust`)."""
    global _trusted
    _trusted = given
    vouch(given)


@contextmanager
def trusting() -> Iterator[None]:
    """Trust all files inside the block, which this process has written itself."""
    global _trusted
    before = _trusted
    trust(True)  # workers load these files later
    try:
        yield
    finally:
        _trusted = before


def require_harmless(path: Path, name: str = "") -> None:
    """Refuse an archive whose loading would run code that the archive brings, unless the user trusts it."""
    if _trusted:
        return
    found = list(dict.fromkeys(_suspects(path, name or path.name)))
    if found:
        shown = ", ".join(one_line(what, 80) for what in found[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise DriftlineError(
            f"{one_line(name or path.name)} holds code that would run when it is loaded: {shown}{more}. If you trust"
            " whoever made the file, add --trust."
        )


def _suspects(path: Path, name: str) -> Iterator[str]:
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            require_plain_zip(archive, file)
            yield from _in_torchscript(archive) if path.suffix == ".pt" else _in_archive(archive, _DEEP)
    except (*_DAMAGED, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        # Also a file that seems to be no archive: torch's own reader may still read it.
        raise DriftlineError(
            f"{one_line(name)} is a damaged archive, or none ({one_line(str(error), 80)}). Write it again with"
            f" {'torch.jit.save' if path.suffix == '.pt' else 'torch.export.save'}."
        ) from error


def _require_room(archive: zipfile.ZipFile, deep: int) -> None:
    """Refuse an archive with large compressed parts. Torch compresses nothing, so few real archives are refused."""
    packed = sum(entry.file_size for entry in archive.infolist() if entry.compress_type != zipfile.ZIP_STORED)
    if packed > (_BIG if deep == _DEEP else 0):
        raise DriftlineError(
            "The archive holds compressed parts that are too large to be looked into, as torch writes none; add --trust"
            " if you trust whoever made the file."
        )


def _in_archive(archive: zipfile.ZipFile, deep: int) -> Iterator[str]:
    _require_room(archive, deep)
    raw, pickled = _payloads(archive) if deep == _DEEP else (frozenset(), ())  # files of torch.save have no such lists
    for entry in archive.infolist():
        name = entry.filename
        if name.lower().endswith(pickled):  # first: the archive chooses the name, which may be that of a harmless part
            yield from _in_part(_read(archive, entry), deep)
            continue
        if name.endswith("/") or _PLAIN.fullmatch(name) or name.lower() in raw:
            continue
        if re.fullmatch(rf"[^/]*/extra/{re.escape(ORIGINAL)}", name):
            yield from _in_embedded(decoded(_read(archive, entry)))
            continue
        if name.endswith(".json"):
            data = _read(archive, entry)
            if not _is_json(data):  # older archives have pickles under such names
                yield from _in_part(data, deep)
            elif "/models/" in f"/{name}" or name.startswith("serialized_"):
                yield from suspects_in_graph(data)
            continue
        if re.fullmatch(r"[^/]*/extra/.*", name):
            continue  # text that torch hands out, and never unpickles
        if re.fullmatch(r"(.*/)?code/.*", name) or name.endswith((".so", ".py", ".o")):
            yield f"{name} (a program)"
            continue
        if deep < _DEEP and re.fullmatch(r"[^/]*/data/\d+", name):
            continue  # bytes of a tensor, in a file of torch.save
        yield from _in_part(_read(archive, entry), deep)


def _in_embedded(data: bytes) -> Iterator[str]:
    """Yield what is suspicious in the TorchScript file that an archive was made from. Data that is no archive is
    refused when it is to be run."""
    if data[:4] == b"PK\x03\x04":
        file = io.BytesIO(data)
        with zipfile.ZipFile(file) as inner:
            require_plain_zip(inner, file)
            yield from _in_torchscript(inner)


def _in_torchscript(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield the names in the pickles of a TorchScript file that are neither tensors nor the file's own classes. Its
    code is no Python, and torch's own reader reads its pickles."""
    _require_room(archive, _DEEP)
    for entry in archive.infolist():
        if entry.filename.endswith((".pkl", ".debug_pkl")):
            yield from _in_pickle(_read(archive, entry), _of_torchscript)


def _of_torchscript(name: str) -> bool:
    return bool(_ALLOWED.fullmatch(name) or _OWN_CLASSES.fullmatch(name.replace(" ", ".")))


def _payloads(archive: zipfile.ZipFile) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the names of parts that the archive lists as raw bytes of tensors, which are never unpickled, and the name
    endings of parts that are. Names are in lower case, as torch looks for them."""
    raw: set[str] = set()
    pickled: set[str] = set()
    for entry in archive.infolist():
        if entry.filename.lower().endswith("_config.json"):
            folder = entry.filename.lower().rpartition("/")[0]
            try:
                parts = [(str(p["path_name"]).lower(), p) for p in json.loads(_read(archive, entry))["config"].values()]
                plain = {name for name, part in parts if part.get("use_pickle") is False and _is_tensor(folder, name)}
                plain -= {name for name, part in parts if part.get("use_pickle") is not False}
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # torch refuses it
            raw |= {f"{folder}/{name}" for name in plain}
            pickled |= {name for name, _ in parts} - plain
    ends = tuple(f"/{name}" for name in sorted(pickled))
    return frozenset(name for name in raw if not name.endswith(ends)), ends


def _is_tensor(folder: str, name: str) -> bool:
    """True if the constant of this name is a tensor. Torch unpickles all other constants."""
    return bool(re.fullmatch(r"[^/]*/data/weights", folder)) or (
        bool(re.fullmatch(r"[^/]*/data/constants", folder)) and name.startswith("tensor_")
    )


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    if entry.file_size > _BIG:
        raise DriftlineError(f"{one_line(entry.filename)} in the archive is too large to be looked into; add --trust.")
    return archive.read(entry)


def _in_part(data: bytes, deep: int) -> Iterator[str]:
    if data[:4] == b"PK\x03\x04" and deep:
        file = io.BytesIO(data)
        with zipfile.ZipFile(file) as inner:
            require_plain_zip(inner, file)
            yield from _in_archive(inner, deep - 1)
    elif data:
        yield from _in_pickle(data, lambda name: bool(_ALLOWED.fullmatch(name)))


def _in_pickle(data: bytes, allowed: Callable[[str], bool]) -> Iterator[str]:
    """Yield what a pickle holds that is not allowed. A pickle that cannot be read to its end is reported too, since
    torch might read it."""
    try:
        yield from names_in(data, allowed)
    except (UnreadablePickle, RecursionError) as error:
        yield f"a part that is no pickle that can be looked into ({one_line(str(error), 60)})"


def _is_json(data: bytes) -> bool:
    """True for a JSON object or list, which no unpickler accepts as a pickle."""
    return data.lstrip()[:1] in (b"{", b"[")
