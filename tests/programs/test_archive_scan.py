"""Archives that would run code when they are loaded are refused before anything loads them."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driftline.core.errors import DriftlineError
from driftline.programs.archive_scan import require_harmless, trusting

torch = pytest.importorskip("torch")


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float32))
        self.register_buffer("second", torch.ones(2, 3, dtype=torch.bfloat16))
        self.constant = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, x: Any, more: Any = None) -> Any:
        return x * self.weight + self.second + self.constant


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "model.pt2"
    exported = torch.export.export(Model(), (torch.zeros(2, 3),), {"more": [torch.ones(1), 3]})
    torch.export.save(exported, str(path))
    return path


def changed(archive: Path, to: Path, change: Callable[[str, bytes], bytes]) -> Path:
    with zipfile.ZipFile(archive) as given, zipfile.ZipFile(to, "w") as made:
        for entry in given.infolist():
            made.writestr(entry.filename, change(entry.filename, given.read(entry)))
    return to


class Evil:
    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> Any:
        return open, (str(self._mark), "w")


def test_what_torch_writes_is_let_through(archive: Path) -> None:
    require_harmless(archive)


@pytest.mark.parametrize("protocol", range(6))
def test_pickled_code_among_the_example_inputs_is_refused(archive: Path, tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "ran"
    buffer = io.BytesIO()
    if protocol < 2:  # without torch's own wrapping
        buffer.write(pickle.dumps(((Evil(mark),), {}), protocol))
    else:
        torch.save(((torch.zeros(2, 3), Evil(mark)), {}), buffer, pickle_protocol=protocol)
    evil = changed(archive, tmp_path / "m.pt2", lambda n, d: buffer.getvalue() if "sample_inputs" in n else d)
    with pytest.raises(DriftlineError, match=r"io\.open.*--trust|builtin.*open.*--trust"):
        require_harmless(evil)
    assert not mark.exists()
    with trusting():
        require_harmless(evil)


def test_a_constant_that_is_a_pickle_is_looked_into(archive: Path, tmp_path: Path) -> None:
    def change(name: str, data: bytes) -> bytes:
        if name.endswith("constants_config.json"):
            config = json.loads(data)
            for part in config["config"].values():
                part["use_pickle"] = True
            return json.dumps(config).encode()
        return pickle.dumps(Evil(tmp_path / "ran")) if "constants/" in name else data

    with pytest.raises(DriftlineError, match="would run when it is loaded"):
        require_harmless(changed(archive, tmp_path / "m.pt2", change))


@pytest.mark.parametrize("part", ["extra/torchscript.base64", "byteorder", ".data/version", "of.json", "WEIGHT_0"])
def test_a_pickle_is_looked_into_whatever_its_name(archive: Path, tmp_path: Path, part: str) -> None:
    evil = pickle.dumps(Evil(tmp_path / "ran"))

    def change(name: str, data: bytes) -> bytes:
        if name.endswith("weights_config.json"):
            config = json.loads(data)
            config["config"]["more"] = {**config["config"]["weight"], "path_name": part, "use_pickle": True}
            return json.dumps(config).encode()
        return evil if name.endswith("weights/weight_0") and part == "WEIGHT_0" else data

    made = changed(archive, tmp_path / "m.pt2", change)
    if part != "WEIGHT_0":  # torch finds parts in capital letters, too
        with zipfile.ZipFile(made, "a") as added:
            added.writestr(f"{archive.stem}/data/weights/{part}", evil)
    with pytest.raises(DriftlineError, match="would run when it is loaded"):
        require_harmless(made)


def test_a_list_of_tensors_excuses_no_pickle(archive: Path, tmp_path: Path) -> None:
    """Neither example inputs with the name of a tensor, nor objects, nor a list inside of what torch.save wrote."""
    evil, inner = pickle.dumps(Evil(tmp_path / "ran")), io.BytesIO()
    with zipfile.ZipFile(inner, "w") as saved:
        saved.writestr("a/data.pkl", evil)
        saved.writestr("a/b_config.json", json.dumps({"config": {"a": {"path_name": "data.pkl", "use_pickle": False}}}))

    def named(path: str) -> Callable[[str, bytes], bytes]:
        def change(name: str, data: bytes) -> bytes:
            if not name.endswith("constants_config.json"):
                return evil if "sample_inputs" in name and path == "model.pt" else data
            config = json.loads(data)
            part = next(iter(config["config"].values()))
            config["config"]["more"] = {**part, "path_name": path, "use_pickle": False}
            return json.dumps(config).encode()

        return change

    made = [changed(archive, tmp_path / f"{path}.pt2", named(path)) for path in ("model.pt", "opaque_obj_0")]
    with zipfile.ZipFile(made[1], "a") as added:
        added.writestr(f"{archive.stem}/data/constants/opaque_obj_0", evil)
    made.append(changed(archive, tmp_path / "i.pt2", lambda n, d: inner.getvalue() if "sample_inputs" in n else d))
    for one in made:
        with pytest.raises(DriftlineError, match="would run when it is loaded"):
            require_harmless(one)


def test_names_that_are_written_into_code_must_be_names(archive: Path, tmp_path: Path) -> None:
    bad = b"x=__import__('os').system('true')"
    evil = changed(archive, tmp_path / "m.pt2", lambda n, d: d.replace(b'"x"', b'"' + bad + b'"'))
    with pytest.raises(DriftlineError, match="the name"):
        require_harmless(evil)


def test_what_cannot_be_looked_into_is_refused(archive: Path, tmp_path: Path) -> None:
    """Not left to torch, whose reader of archives is another one and may take what ours does not."""
    whole = archive.read_bytes()
    end = whole.rindex(b"PK\x05\x06")
    several_disks = whole[:end] + b"PK\x06\x07" + bytes(12) + b"\x07\0\0\0" + whole[end:]
    for data in (b"", whole[:10], whole[: len(whole) // 2], whole[:-5], several_disks):
        (tmp_path / "m.pt2").write_bytes(data)
        with pytest.raises(DriftlineError, match=r"m\.pt2 is a damaged archive, or none .*torch\.export\.save"):
            require_harmless(tmp_path / "m.pt2")


def test_the_command_line_refuses_it_and_takes_it_with_trust(archive: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    buffer = io.BytesIO()
    torch.save(((torch.zeros(2, 3),), {"more": [torch.ones(1), Evil(mark)]}), buffer)
    changed(archive, tmp_path / "m.pt2", lambda n, d: buffer.getvalue() if "sample_inputs" in n else d)
    command = [sys.executable, "-m", "driftline", "check", "m.pt2", "--targets", "eager"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "--trust" in done.stderr and "Traceback" not in done.stderr
    assert not mark.exists()
