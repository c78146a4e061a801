"""Libraries that do not load because others are missing, made by the C compiler: no torch is downloaded."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from driftline.execute.cpu_torch import is_gpu_only, stand_in_for_gpu

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")

USER = """\
#include <stdlib.h>
int gpu_plain(void);
int gpu_versioned(void);
int answer(int gpu) { return gpu ? gpu_plain() + gpu_versioned() : atoi("42"); }
"""


def compile_library(folder: Path, name: str, source: str, *options: str) -> None:
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", f"-Wl,-soname,{name}", "-o", str(folder / name)]
    subprocess.run([*command, "-x", "none", *options], input=source, text=True, check=True)


def load(folder: Path, call: str) -> subprocess.CompletedProcess[str]:
    code = f"import ctypes; library = ctypes.CDLL({str(folder / 'libtorch.so')!r}); print({call})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """A `libtorch.so` that was linked with two libraries, one of them with versions, which are then taken away."""
    (tmp_path / "map").write_text("libgpu.so.13 { global: gpu_versioned; };")
    compile_library(tmp_path, "libplain.so.2", "int gpu_plain(void) { return 1; }")
    compile_library(
        tmp_path, "libgpu.so.13", "int gpu_versioned(void) { return 1; }", f"-Wl,--version-script={tmp_path / 'map'}"
    )
    parts = [str(tmp_path / name) for name in ("libplain.so.2", "libgpu.so.13")]
    compile_library(tmp_path, "libtorch.so", USER, *parts, "-Wl,-rpath,$ORIGIN")
    # Another asks for the same function without its version, as some releases do.
    unversioned = "int gpu_versioned(void); int other(void) { return gpu_versioned(); }"
    compile_library(tmp_path, "libtorch_python.so", unversioned, "-Wl,--no-as-needed", "-lc")
    for part in parts:
        Path(part).unlink()
    return tmp_path


def test_what_the_cpu_needs_loads_and_works(libraries: Path) -> None:
    assert "cannot open shared object" in load(libraries, "library.answer(0)").stderr
    assert stand_in_for_gpu(libraries) == ("libgpu.so.13", "libplain.so.2")
    assert load(libraries, "library.answer(0)").stdout == "42\n"
    assert stand_in_for_gpu(libraries) == (), "nothing is missing any more"


def test_a_call_of_the_gpu_is_seen(libraries: Path) -> None:
    stand_in_for_gpu(libraries)
    done = load(libraries, "library.answer(1)")
    assert done.returncode < 0
    assert "called a GPU library that is not installed" in done.stderr


def test_what_is_left_out() -> None:
    left_out = ("nvidia-cublas", "nvidia-cudnn-cu12", "triton", "cuda-toolkit", "cuda-bindings", "pytorch-triton")
    assert all(map(is_gpu_only, left_out))
    assert not any(map(is_gpu_only, ("torch", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime", "sympy", "numpy")))
