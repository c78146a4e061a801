"""What a test may require of the machine: a GPU, processor, instructions, compiler or package. Imports no compiler."""

from __future__ import annotations

import importlib.util
import platform
import re
from functools import cache
from pathlib import Path

from driftline.backends import BACKENDS
from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean

_PROCESSORS = {"x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}
_PACKAGE = re.compile(r"package:([A-Za-z_][\w.]*)")
# As the kernel names them, on x86-64 and on 64-bit Arm.
_INSTRUCTIONS = (
    "avx", "avx2", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_bf16", "amx_int8", "amx_tile", "fma",
    "asimd", "asimddp", "asimdhp", "bf16", "i8mm", "sme", "sve", "sve2",
)  # fmt: skip


def known() -> tuple[str, ...]:
    """Return every feature that can be required, except `package:NAME`."""
    return ("cuda", *_PROCESSORS, *_INSTRUCTIONS, *BACKENDS)


def missing(feature: str) -> str:
    """Return why the machine lacks a feature, or an empty string if it has the feature."""
    if package := _PACKAGE.fullmatch(feature):
        found = importlib.util.find_spec(package[1].partition(".")[0])
        return "" if found else f"the package {package[1]!r} is not installed"
    if feature == "cuda":
        return "" if _has_nvidia_driver() else "there is no NVIDIA GPU with its driver"
    if feature in _PROCESSORS:
        here = platform.machine().lower()
        return "" if here in _PROCESSORS[feature] else f"this processor is {here}"
    if feature in _INSTRUCTIONS:
        return "" if feature in _instructions() else f"this processor has no {feature}"
    if feature in BACKENDS:
        backend = BACKENDS.get(feature)
        found_here = backend.installed()
        return "" if found_here.available else f"{found_here.reason}; {backend.install_command}"
    raise DriftlineError(
        f"requires({feature!r}): there is no such thing to ask for.{did_you_mean(feature, known())} It is one of"
        f" {', '.join(known())}, or package:NAME."
    )


def _has_nvidia_driver() -> bool:
    return Path("/proc/driver/nvidia/version").exists() and any(Path("/dev").glob("nvidia[0-9]*"))


@cache
def _instructions() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    lines = re.findall(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return frozenset(word for line in lines for word in line.split())
