"""The wheel holds what the package needs and no more, and works where nothing but its dependencies is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement

import driftline
from driftline.backends import BACKENDS

ROOT = Path(__file__).resolve().parents[2]
NOT_CODE = {".html", ".css", ".js", ".toml", ".txt"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.slow
def test_the_source_archive_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run([*command, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path, filter="data")
    subprocess.run([*command, "-t", "wheel"], cwd=tmp_path / archive.name.removesuffix(".tar.gz"), check=True)
    (made,) = tmp_path.glob("*.whl")
    assert names_in(made) == names_in(wheel)


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_it_holds_all_of_the_package_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and (path.suffix in NOT_CODE | {".py"} or path.name == "py.typed")
    }
    info = f"driftline-{driftline.__version__}"
    packed = {name for name in names_in(wheel) if not name.startswith((f"{info}.dist-info/", f"{info}.data/"))}
    assert packed == wanted
    of_every_sort = (
        "driftline/py.typed",
        "driftline/report/templates/report.html",
        "driftline/inductor/templates/lab.html",
        "driftline/hardware/profiles/npu.toml",
        "driftline/causes/library/inductor/product-with-zero.toml",
    )
    assert set(of_every_sort) <= packed
    assert f"{info}.data/data/share/man/man1/driftline.1" in names_in(wheel)


def test_the_version_is_that_of_the_package(wheel: Path) -> None:
    assert PurePosixPath(wheel).name == f"driftline-{driftline.__version__}-py3-none-any.whl"


def test_the_citation_names_this_version() -> None:
    assert f"\nversion: {driftline.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_an_extra_brings_what_its_backend_needs() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name in BACKENDS.names():
        backend = BACKENDS.get(name)
        if not backend.extra or backend.install:
            continue
        brought = {Requirement(line).name for line in extras[backend.extra]}
        assert backend.distribution in brought, f"{name}: the extra {backend.extra} has no {backend.distribution}"
        assert backend.install_command == f"pip install 'driftline[{backend.extra}]'"
        if backend.accepts == ("onnx",):  # the extra is enough by itself
            assert backend.extra == "onnx" or "driftline[onnx]" in extras[backend.extra]


def dependencies(found: Distribution, seen: set[str]) -> Iterator[Distribution]:
    """What a distribution needs without extras, and what that needs, each once."""
    for line in found.requires or ():
        requirement = Requirement(line)
        if requirement.name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(requirement.name)
        needed = distribution(requirement.name)
        yield needed
        yield from dependencies(needed, seen)


@pytest.fixture(scope="module")
def empty_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtualenv with the wheel, installed by pip, and its declared dependencies, linked from here: no index
    is asked. Returns its `bin`."""
    folder = tmp_path_factory.mktemp("empty")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (info,) = packages.glob("driftline-*.dist-info")
    for needed in dependencies(Distribution.at(info), set()):
        for top in {file.parts[0] for file in needed.files or () if file.parts[0] not in ("..", "__pycache__")}:
            (packages / top).symlink_to(Path(str(needed.locate_file(top))))
    checked = subprocess.run([*pip, "check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    return folder / "bin"


@pytest.mark.slow
def test_it_works_in_an_empty_environment_and_names_the_extras_to_add(empty_environment: Path, tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        surroundings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return subprocess.run(
            [str(empty_environment / "driftline"), *words],
            cwd=tmp_path,
            env={**surroundings, "DRIFTLINE_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
        )

    assert run("--version").stdout == f"driftline, version {driftline.__version__}\n"

    doctor = run("doctor")
    assert doctor.returncode == 0, doctor.stderr
    for extra in ("torch", "onnx", "onnxruntime", "openvino", "tvm", "iree", "jax", "tensorflow", "executorch"):
        assert f"pip install 'driftline[{extra}]'" in doctor.stdout

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [x], [y])
    onnx.save(helper.make_model(graph), tmp_path / "tiny.onnx")
    (tmp_path / "zero.py").write_text("import torch\n\n\ndef program():\n    return torch.relu, (torch.ones(3),)\n")

    unasked = run("check", "tiny.onnx")
    assert unasked.returncode == 2 and "pip install 'driftline[onnx]'" in unasked.stderr
    named = run("check", "tiny.onnx", "--targets", "onnxruntime")
    assert named.returncode == 4 and "pip install 'driftline[onnxruntime]'" in named.stderr
    source = run("check", "zero.py:program")
    assert source.returncode == 2 and "pip install 'driftline[torch]'" in source.stderr
    for command in (["hunt", "--budget", "5s"], ["check", "model:bert"], ["models", "list"], ["causes", "list"]):
        done = run(*command)
        assert done.returncode in (0, 2) and "Traceback" not in done.stderr, done.stderr
