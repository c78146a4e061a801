"""Hostile models: archives whose pickles call something, written so that a scanner may overlook the call.

Each archive is scanned, and if it passes, its pickle is loaded as torch would load it. The call makes a file.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driftline.core.errors import DriftlineError
from driftline.programs.archive_scan import require_harmless
from driftline.programs.pickled import load_exported
from hostile.attack import Attack, both_ways, replacing

PART = "m/data/sample_inputs/model.pt"


def _text(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


def _call(mark: Path, find: bytes) -> bytes:
    """Calls what `find` leaves on the stack with the name of the file to be made."""
    return find + b"(" + b"X" + struct.pack("<I", len(str(mark))) + str(mark).encode() + b"X\x01\0\0\0wtR"


def plain(mark: Path) -> bytes:
    return b"\x80\x02" + _call(mark, b"cio\nopen\n") + b"."


def stack_global(mark: Path) -> bytes:
    return b"\x80\x04" + _call(mark, _text("io") + _text("open") + b"\x93") + b"."


def popped(mark: Path) -> bytes:
    """The two last texts before the instruction are harmless, and are taken off the stack again."""
    names = _text("io") + _text("open") + _text("collections") + _text("OrderedDict") + b"00"
    return b"\x80\x04" + _call(mark, names + b"\x93") + b"."


def popped_mark(mark: Path) -> bytes:
    names = _text("io") + _text("open") + b"(" + _text("collections") + _text("OrderedDict") + b"1"
    return b"\x80\x04" + _call(mark, names + b"\x93") + b"."


def memoised(mark: Path) -> bytes:
    """Puts the dangerous text into the memo, and takes it out where a scanner expects another one."""
    keep = _text("io") + b"q\x000" + _text("open") + b"q\x010" + _text("OrderedDict") + b"0"
    return b"\x80\x04" + _call(mark, keep + b"h\x00h\x01\x93") + b"."


def overwritten_memo(mark: Path) -> bytes:
    keep = _text("collections") + b"q\x000" + _text("io") + b"r\x00\0\0\0000"
    return b"\x80\x04" + _call(mark, keep + b"h\x00" + _text("open") + b"\x93") + b"."


def duplicated(mark: Path) -> bytes:
    keep = _text("open") + b"20" + b"q\x050" + _text("io") + b"h\x05"
    return b"\x80\x04" + _call(mark, keep + b"\x93") + b"."


def from_tuple(mark: Path) -> bytes:
    """The call comes inside of other values, and its result is thrown away."""
    return b"\x80\x02(" + _call(mark, b"cio\nopen\n") + b"0]t."


def inst(mark: Path) -> bytes:
    return b"(V" + str(mark).encode() + b"\nVw\niio\nopen\n."


def obj(mark: Path) -> bytes:
    return b"(cio\nopen\nV" + str(mark).encode() + b"\nVw\no."


def newobj(mark: Path) -> bytes:
    text = str(mark).encode()
    return (
        b"\x80\x02cio\nFileIO\n(X"
        + struct.pack("<I", len(text))
        + text
        + b"X\x01\0\0\0wt\x81"
        + b"cio\nopen\n0"
        + (_call(mark, b"cio\nopen\n") + b".")
    )


def build(mark: Path) -> bytes:
    return b"\x80\x02ccollections\nOrderedDict\n)R}b" + _call(mark, b"cio\nopen\n") + b"."


def second_pickle(mark: Path) -> bytes:
    """As torch wrote files formerly: one pickle after the other. The first one is a number."""
    return pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + plain(mark)


def dotted(mark: Path) -> bytes:
    """A name with a dot leads from a harmless class to what its module imports."""
    return b"\x80\x04" + _call(mark, _text("io") + _text("open.__call__") + b"\x93") + b"."


def nested_loader(mark: Path) -> bytes:
    """A function that torch has for its own pickles, which loads a pickle inside the pickle."""
    inner = plain(mark)
    return b"\x80\x02cpickle\nloads\n(B" + struct.pack("<I", len(inner)) + inner + b"tR."


def cut_off(mark: Path) -> bytes:
    """Runs to the call, and ends in the middle of an instruction."""
    return b"\x80\x02" + _call(mark, b"cio\nopen\n") + b"X\xff\xff"


PAYLOADS: dict[str, Callable[[Path], bytes]] = {
    "global": plain,
    "stack-global": stack_global,
    "popped": popped,
    "popped-mark": popped_mark,
    "memo": memoised,
    "overwritten-memo": overwritten_memo,
    "duplicated": duplicated,
    "result-thrown-away": from_tuple,
    "inst": inst,
    "obj": obj,
    "newobj": newobj,
    "build": build,
    "several-pickles": second_pickle,
    "dotted-name": dotted,
    "pickle-in-a-pickle": nested_loader,
    "cut-off": cut_off,
}


def archive_of(place: Path, parts: list[tuple[str, bytes]]) -> Path:
    path = place / "m.pt2"
    with zipfile.ZipFile(path, "w") as made:
        for name, data in parts:
            made.writestr(name, data)
    return path


def unpickled(data: bytes) -> None:
    """Loads all pickles of a part, as torch's reader of older files does."""
    file = io.BytesIO(data)
    with contextlib.suppress(Exception):
        while file.tell() < len(data):
            pickle.load(file)


def _achieved(path: Path, payload: bytes, mark: Path) -> str:
    try:
        require_harmless(path)
    except DriftlineError:
        return ""
    unpickled(payload)
    return "a call was made" if mark.exists() else ""


def _single(make: Callable[[Path], bytes], name: str = PART) -> Callable[[Path], str]:
    def run(place: Path) -> str:
        mark = place / "ran"
        payload = make(mark)
        return _achieved(archive_of(place, [(name, payload)]), payload, mark)

    return run


def _saved(payload: bytes) -> bytes:
    """As torch.save writes a pickle."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as saved:
        saved.writestr("archive/data.pkl", payload)
    return inner.getvalue()


def _nested(place: Path) -> str:
    payload = stack_global(place / "ran")
    return _achieved(archive_of(place, [(PART, _saved(_saved(payload)))]), payload, place / "ran")


def _twice(place: Path) -> str:
    """Two parts of one name: one reader takes the first, another one the last."""
    payload = pickle.dumps([1])
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = archive_of(place, [(PART, payload), (PART, payload)])
    return _passes(path)


def _other_case(place: Path) -> str:
    return _passes(archive_of(place, [(PART, pickle.dumps([1])), (PART.upper(), pickle.dumps([2]))]))


def _passes(path: Path) -> str:
    try:
        require_harmless(path)
    except DriftlineError:
        return ""
    return "the archive passes"


def _two_archives(place: Path) -> str:
    """One archive behind another: which one is meant depends on where the reader begins."""
    path = archive_of(place, [(PART, plain(place / "ran"))])
    first = path.read_bytes()
    path.write_bytes(first + archive_of(place, [(PART, pickle.dumps([1]))]).read_bytes())
    return _passes(path)


def _in_the_comment(place: Path) -> str:
    path = archive_of(place, [(PART, pickle.dumps([1]))])
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"a second end of the archive could stand here"
    return _passes(path)


def _renamed_in_the_list(place: Path) -> str:
    """The list of parts calls a pickle a tensor, and the part itself says what it is."""
    path = archive_of(place, [("m/byteorder_", plain(place / "ran"))])
    data = path.read_bytes()
    head, tail = data[: data.index(b"PK\1\2")], data[data.index(b"PK\1\2") :]
    path.write_bytes(head + tail.replace(b"m/byteorder_", b"m/.data/more"))
    return _passes(path)


def _torchscript(place: Path) -> str:
    path = place / "m.pt"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("m/code/__torch__.py", "class Model(Module): pass")
        made.writestr("m/data.pkl", popped(place / "ran"))
    return _passes(path)


def _embedded_name(place: Path) -> str:
    """The legacy form: one stream of pickles, without an archive around it."""
    path = place / "m.pt"
    path.write_bytes(second_pickle(place / "ran"))
    return _passes(path)


def _loaded(change: Callable[[bytes, str, bytes], bytes], constant: str = "tensor_0") -> Callable[[Path], str]:
    """Loads an archive that the scan let through by mistake, as a worker does. `constant`: the name of its constant."""

    def run(place: Path) -> str:
        torch = pytest.importorskip("torch")
        sound, mark = io.BytesIO(), place / "ran"
        torch.export.save(torch.export.export(_adds(), (torch.zeros(2),)), sound)
        with zipfile.ZipFile(sound) as given, zipfile.ZipFile(place / "m.pt2", "w") as made:
            for entry in given.infolist():
                name = entry.filename.replace("constants/tensor_0", f"constants/{constant}")
                made.writestr(name, change(plain(mark), entry.filename, given.read(entry)))
        with contextlib.suppress(Exception):
            load_exported(place / "m.pt2")
        return "a call was made" if mark.exists() else ""

    return run


def _adds() -> Any:
    """A module with a constant, made where torch is installed."""
    import torch

    class Adds(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.constant = torch.tensor([1.0, 2.0])

        def forward(self, x: Any) -> Any:
            return x + self.constant

    return Adds()


def _in_the_inputs(payload: bytes, name: str, data: bytes) -> bytes:
    return payload if "sample_inputs" in name else data


def _in_saved_inputs(payload: bytes, name: str, data: bytes) -> bytes:
    return _with_data(data, payload) if "sample_inputs" in name else data


def _with_data(saved: bytes, payload: bytes) -> bytes:
    """What torch.save wrote, with another pickle in it."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved)) as given, zipfile.ZipFile(changed, "w") as made:
        for entry in given.infolist():
            made.writestr(entry.filename, payload if entry.filename.endswith("data.pkl") else given.read(entry))
    return changed.getvalue()


def _constant(prefix: str) -> Callable[[bytes, str, bytes], bytes]:
    """A constant that is a pickle, under a name that begins as torch names tensors or Python objects."""

    def change(payload: bytes, name: str, data: bytes) -> bytes:
        if name.endswith("constants_config.json"):
            config = json.loads(data)
            for part in config["config"].values():
                part.update(use_pickle=True, path_name=f"{prefix}0")
            return json.dumps(config).encode()
        return data

    def renamed(payload: bytes, name: str, data: bytes) -> bytes:
        return payload if "/constants/" in name and not name.endswith(".json") else change(payload, name, data)

    return renamed


no_names = replacing("driftline.programs.archive_scan.names_in", lambda data, allowed: ())
any_zip = replacing("driftline.programs.archive_scan.require_plain_zip", lambda archive, file: None)
any_pickle = replacing("driftline.programs.pickled.vouched", lambda: True)
no_scan = replacing("driftline.programs.archive_scan._suspects", lambda path, name: ())


def taken_for_json(weak: pytest.MonkeyPatch) -> None:
    """What cannot be read as JSON is left to torch."""
    weak.setattr("driftline.programs.archive_scan._is_json", lambda data: True)
    weak.setattr("driftline.programs.archive_scan.suspects_in_graph", lambda data: ())


ATTACKS = [
    *(Attack(name, _single(make), no_names) for name, make in PAYLOADS.items()),
    Attack("named-json", _single(popped, "serialized_state_dict.json"), taken_for_json),
    Attack("nested-archives", _nested, no_names),
    Attack("two-parts-of-one-name", _twice, any_zip),
    Attack("names-that-differ-in-case", _other_case, any_zip),
    Attack("two-archives-in-one-file", _two_archives, any_zip),
    Attack("comment-behind-the-archive", _in_the_comment, any_zip),
    Attack("part-with-two-names", _renamed_in_the_list, any_zip),
    Attack("loaded-inputs", _loaded(_in_the_inputs), any_pickle),
    Attack("loaded-inputs-that-torch-saved", _loaded(_in_saved_inputs), any_pickle),
    Attack("loaded-constant", _loaded(_constant("tensor_")), any_pickle),
    Attack("loaded-object", _loaded(_constant("opaque_obj_"), "opaque_obj_0"), any_pickle),
    Attack("torchscript", _torchscript, no_names),
    Attack("legacy-file", _embedded_name, no_scan),
]
test_attack_fails = both_ways(ATTACKS)


def test_instructions_with_numbers_for_names_are_refused(tmp_path: Path) -> None:
    for code in (b"\x82\x01", b"\x83\x01\0", b"\x84\x01\0\0\0"):
        with pytest.raises(DriftlineError, match="EXT"):
            require_harmless(archive_of(tmp_path, [(PART, b"\x80\x02" + code + b")R.")]))


def test_a_function_of_torch_that_loads_pickles_is_refused(tmp_path: Path) -> None:
    payload = b"\x80\x02ctorch.storage\n_load_from_bytes\n(C\x01.tR."
    with pytest.raises(DriftlineError, match="_load_from_bytes"):
        require_harmless(archive_of(tmp_path, [(PART, payload)]))


def test_a_pickle_that_would_be_hashed_for_ever_is_looked_into_at_once(tmp_path: Path) -> None:
    """Each tuple holds the last one twice: as the key of a dictionary, 2**60 steps."""
    payload = b"\x80\x02}" + b"(t" + b"q\x00h\x00\x86" * 60 + b"K\x01s."
    began = time.process_time()
    require_harmless(archive_of(tmp_path, [(PART, payload)]))
    assert time.process_time() - began < 5
