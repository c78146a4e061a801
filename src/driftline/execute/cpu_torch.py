"""Installs torch for the CPU from a wheel built for CUDA, without the gigabytes of libraries that only a GPU uses.

The ordinary wheels of torch need a dozen such libraries and do not load if one is missing, but nothing that runs on the
CPU calls them. So the libraries are not installed, and one stub library replaces them all. Its functions stop the
process, so an unexpected call is noticed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from driftline.core.errors import DriftlineError
from driftline.core.text import first_line

# The CUDA runtime is small and called while torch is imported, so it is installed.
_GPU_ONLY = re.compile(r"(nvidia-(?!cuda-runtime)|cuda-|triton\b|pytorch-triton)")
_STAND_IN = "libgpu_absent.so"
_SOURCE = """\
#include <stdlib.h>
#include <unistd.h>
static void absent(void) {
    static const char said[] = "driftline: torch called a GPU library that is not installed here\\n";
    if (write(2, said, sizeof said - 1)) abort();
    abort();
}
"""
# These libraries together need everything that `import torch` loads.
_LOADED = ("libtorch_global_deps.so", "libtorch.so", "libtorch_python.so")


def is_gpu_only(package: str) -> bool:
    """True if torch does not need this package to compute on the CPU."""
    return bool(_GPU_ONLY.match(package))


def stand_in_for_gpu(libraries: Path) -> tuple[str, ...]:
    """Make the libraries in `torch/lib` loadable without the missing GPU libraries; return the names of those."""
    missing: set[str] = set()
    functions: defaultdict[str, set[str]] = defaultdict(set)  # by the symbol version that is asked for; "" for none
    for library in _LOADED:
        if not (libraries / library).exists():
            continue
        told = subprocess.run(["ldd", "-r", str(libraries / library)], capture_output=True, text=True)
        text = told.stdout + told.stderr
        missing.update(re.findall(r"^\s*(\S+) => not found", text, re.MULTILINE))
        for name, version in re.findall(r"undefined symbol: (\w+)(?:, version (\S+))?", text):
            if not name.startswith(("Py", "_Py")):  # symbols of the interpreter
                functions[version].add(name)
    if missing:
        _compile(libraries, functions)
    for name in missing:
        (libraries / name).symlink_to(_STAND_IN)
    return tuple(sorted(missing))


def _compile(folder: Path, functions: Mapping[str, set[str]]) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise DriftlineError(
            "This torch is a build for CUDA. To run it on the CPU, without its GPU libraries, a C compiler is needed"
            " (cc, gcc or clang), as for TorchInductor itself: install one."
        )
    names = sorted(set().union(*functions.values()))  # one definition serves names with and without a version
    source = _SOURCE + "".join(f"void {name}(void) {{ absent(); }}\n" for name in names)
    versions = "".join(
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(group))} }};\n"
        for version, group in functions.items()
        if version
    )
    script = folder / f"{_STAND_IN}.map"
    script.write_text(versions)
    options = [f"-Wl,--version-script={script}"] if versions else []
    command = [compiler, "-shared", "-w", "-x", "c", "-", "-o", str(folder / _STAND_IN), *options]
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    if done.returncode:
        raise DriftlineError(f"The stand-in for torch's GPU libraries does not compile: {first_line(done.stderr)}")
