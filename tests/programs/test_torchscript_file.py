"""TorchScript files: opened with the shapes that they were traced with or that are given, and run by TorchScript."""

from __future__ import annotations

import base64
import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftline.backends.torchscript import TorchScript
from driftline.checking.open import open_program
from driftline.cli import run
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.execute.pool import Pool
from driftline.inputs.sizes import Sizes
from driftline.programs.archive_scan import require_harmless
from driftline.programs.opened import OpenedProgram
from driftline.programs.torchscript_file import ORIGINAL, embedded, require_torchscript, write_archive

torch = pytest.importorskip("torch")
OPTIONS = CheckOptions()


class Quotient(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.inner(x), -1) / scale


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "traced.pt"
    torch.manual_seed(0)
    example = torch.zeros(3, 4, dtype=torch.float32), torch.ones(3, 1, dtype=torch.float32)
    torch.jit.save(torch.jit.trace(Quotient().eval(), example), path)
    return path


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "scripted.pt"
    torch.jit.save(torch.jit.script(Doubled().eval()), path)
    return path


def changed(path: Path, to: Path, change: Callable[[str, bytes], bytes | str]) -> Path:
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(to, "w") as made:
        for entry in given.infolist():
            made.writestr(entry.filename, change(entry.filename, given.read(entry)))
    return to


def test_a_traced_file_is_a_program_with_its_own_names_and_shapes(traced: Path, pool: Pool) -> None:
    opened = open_program(str(traced), pool, OPTIONS)
    assert [str(spec) for spec in opened.program.inputs] == ["x: float32[3, 4]", "scale: float32[3, 1]"]
    assert (opened.program.form, opened.program.framework) == ("torch", "torch")
    assert embedded(opened.program.path) == traced.read_bytes()


def test_a_check_runs_it_and_the_store_can_replay_it(
    traced: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["check", str(traced), "--targets", "torchscript", "--inputs", "random", "--store", str(tmp_path / "store")]
    assert run(words) == 0
    assert "1 pass" in capsys.readouterr().out


def test_shapes_that_a_scripted_file_does_not_have_are_asked_for(scripted: Path, pool: Pool) -> None:
    with pytest.raises(DriftlineError, match=r"give --shape x=AxB"):
        open_program(str(scripted), pool, OPTIONS)
    with pytest.raises(DriftlineError, match=r"no input of that name.*It takes: x"):
        open_program(str(scripted), pool, OPTIONS, Sizes.parse([], ["y=2x3"]))
    opened = open_program(str(scripted), pool, OPTIONS, Sizes.parse([], ["x=2x3"]))
    assert [str(spec) for spec in opened.program.inputs] == ["x: float32[2, 3]"]


def test_torchscript_runs_the_file_and_not_what_it_was_converted_to(scripted: Path, pool: Pool, tmp_path: Path) -> None:
    opened = open_program(str(scripted), pool, OPTIONS, Sizes.parse([], ["x=2x3"]))

    class Tripled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 3

    other = io.BytesIO()
    torch.jit.save(torch.jit.script(Tripled().eval()), other)
    text = base64.b64encode(other.getvalue())
    path = changed(
        opened.program.path, tmp_path / "other.pt2", lambda name, data: text if name.endswith(ORIGINAL) else data
    )
    example = {"x": np.ones((2, 3), np.float32)}
    compiled = TorchScript().compile(OpenedProgram(opened.program.at(path), example=example), {})
    (found,) = compiled(example).values()
    assert (found == 3).all()


def test_what_the_converter_gets_wrong_or_chance_decides_is_refused(tmp_path: Path) -> None:
    class Chance(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.dropout(x, 0.5, True)

    path = tmp_path / "chance.pt"
    torch.jit.save(torch.jit.script(Chance()), path)
    with pytest.raises(DriftlineError, match="other results each time"):
        write_archive(path, "chance.pt", {"x": (8, 8)}, 0, tmp_path / "made.pt2")


def test_a_result_that_is_text_is_named(tmp_path: Path) -> None:
    class Talks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, str]:
            return x * 2, "done"

    path = tmp_path / "talks.pt"
    torch.jit.save(torch.jit.script(Talks().eval()), path)
    with pytest.raises(DriftlineError, match=r"talks\.pt returns 'done', which is neither a tensor nor a number"):
        write_archive(path, "talks.pt", {"x": (2, 2)}, 0, tmp_path / "made.pt2")


class Evil:
    def __reduce__(self) -> Any:
        return open, ("ran", "w")


def test_a_pickle_that_names_anything_but_tensors_is_refused(traced: Path, pool: Pool, tmp_path: Path) -> None:
    require_harmless(traced)
    evil = changed(
        traced, tmp_path / "evil.pt", lambda name, data: pickle.dumps(Evil()) if name.endswith("data.pkl") else data
    )
    with pytest.raises(DriftlineError, match=r"open.*--trust"):
        require_harmless(evil)
    archive = open_program(str(traced), pool, OPTIONS).program.path
    require_harmless(archive)  # as cases of a store are looked at
    text = base64.b64encode(evil.read_bytes())
    with pytest.raises(DriftlineError, match=r"open.*--trust"):
        require_harmless(
            changed(archive, tmp_path / "evil.pt2", lambda name, data: text if name.endswith(ORIGINAL) else data)
        )


def test_other_files_that_end_in_pt_are_told_from_torchscript(tmp_path: Path, traced: Path, pool: Pool) -> None:
    weights, text, damaged = tmp_path / "weights.pt", tmp_path / "text.pt", tmp_path / "damaged.pt"
    torch.save({"weight": torch.zeros(2)}, weights)
    text.write_text("not an archive")
    changed(traced, damaged, lambda name, data: b"def forward(" if name.endswith(".py") else data)
    with pytest.raises(DriftlineError, match=r"what torch\.save writes"):
        require_torchscript(weights, "weights.pt")
    with pytest.raises(DriftlineError, match="which is a ZIP archive"):
        open_program(str(text), pool, OPTIONS)
    with pytest.raises(DriftlineError, match="not a TorchScript file that this torch can load"):
        open_program(str(damaged), pool, OPTIONS)


def test_a_damaged_part_is_one_sentence(traced: Path, tmp_path: Path) -> None:
    path = tmp_path / "packed.pt"
    with zipfile.ZipFile(traced) as given, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for entry in given.infolist():
            made.writestr(entry.filename, given.read(entry))
    with zipfile.ZipFile(path) as packed:
        part = next(entry for entry in packed.infolist() if entry.filename.endswith("data.pkl"))
    data = bytearray(path.read_bytes())
    start = part.header_offset + 30 + len(part.filename)
    data[start : start + part.compress_size] = b"\xff" * part.compress_size
    path.write_bytes(data)
    with pytest.raises(DriftlineError, match="damaged archive"):
        require_harmless(path)
