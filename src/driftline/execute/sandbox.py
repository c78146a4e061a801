"""The sandbox of a worker: it may read the user's files and write to its scratch folder, and nothing else.

Programs in workers are generated, or come with a store or a model file, and miscompiled code may do anything. Linux
removes rights for good, from a process and all that it starts: Landlock for writing (`landlock.py`), a seccomp filter
for system calls (`seccomp.py`), and root's privileges are dropped. None of this needs privileges. If the kernel lacks a
layer, programs still run, and `driftline doctor` reports it. `DRIFTLINE_SANDBOX=off` switches the sandbox off;
`DRIFTLINE_WRITABLE` names further folders that workers may write to, separated by colons.

Standard library only: this runs in environments that have nothing else.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from driftline.execute import landlock, seccomp

SWITCH = "DRIFTLINE_SANDBOX"
MORE = "DRIFTLINE_WRITABLE"

_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_CAPABILITIES = 64  # more than the kernel has
_CAPABILITY_VERSION = 0x20080522
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def wanted() -> bool:
    """True unless the user switched the sandbox off."""
    return os.environ.get(SWITCH, "on") != "off"


def enter(writable: Iterable[Path | str], plain: Iterable[Path | str] = ()) -> None:
    """Give up all rights that a worker does not need. A layer that the kernel lacks is skipped. Raises `OSError` if the
    kernel has a layer and refuses it: then no untrusted program may run.

    Below `writable` the worker may create anything but device nodes. Below `plain`, where the parent process reads and
    writes too, it creates only plain files and folders, so that the parent can never follow a link made by the worker.
    """
    if not wanted():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel keeps the right to gain privileges")
    more = [place for place in os.environ.get(MORE, "").split(":") if place]
    landlock.restrict([*writable, *more, *_DEVICES, *_gpus()], plain)
    _drop_capabilities(libc)
    seccomp.restrict()


def layers() -> dict[str, str]:
    """Return the layers of the sandbox on this machine, each with the actions that it prevents, or why it is
    missing."""
    if not wanted():
        return dict.fromkeys(("Landlock", "seccomp", "capabilities"), f"off: {SWITCH} is off")
    version = landlock.abi()
    signals = "and signals to other processes" if landlock.scoped() else "but not signals to other processes"
    return {
        "Landlock": f"version {version}: writing outside the scratch, {signals}" if version else "missing",
        "seccomp": "sockets, owners and modes of files, other processes" if seccomp.available() else "missing",
        "capabilities": "all of root's privileges" if os.geteuid() == 0 else "none to drop",
    }


def shortcomings() -> list[str]:
    """Return a sentence for each right that cannot be taken from workers here."""
    if not wanted():
        return [f"workers may write everywhere and use the network: {SWITCH} is off"]
    told = []
    if lacking := missing():
        told.append(f"workers may write wherever the user can: {lacking}")
    elif not landlock.scoped():
        told.append("workers may signal other processes of the user: this kernel's Landlock is too old to forbid that")
    if not seccomp.available():
        told.append("workers can use the network: there is no seccomp filter for this kernel or machine")
    return told


_TRY = """
import os, socket, sys
sys.path.insert(0, sys.argv[1])
from driftline.execute.sandbox import enter
enter([])
got = []
try:
    os.mkdir(sys.argv[2])
except OSError:
    got.append("Landlock")
try:
    socket.socket()
except OSError:
    got.append("seccomp")
if "CapEff:\t0000000000000000" in open("/proc/self/status").read():
    got.append("capabilities")
print("got", *got)
"""


def got() -> list[str]:
    """Return the layers that work in a process that entered the sandbox: the process tries the forbidden actions."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-I", "-S", "-c", _TRY, str(Path(__file__).parents[2]), f"{folder}/made"]
        environment = {**os.environ, MORE: ""}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    last = done.stdout.split()
    return last[1:] if last[:1] == ["got"] else []


def in_force() -> dict[str, str]:
    """Return the layers as `layers` does, but mark a layer as missing if a sandboxed process did not get it."""
    told = layers()
    if not wanted():
        return told
    found = got()
    return {
        name: what if name in found or what == "missing" else f"missing, though the kernel offers {name}"
        for name, what in told.items()
    }


def missing() -> str:
    """Return why programs cannot be kept in a sandbox on this kernel, or an empty string."""
    return "this kernel has no Landlock" if landlock.abi() < 1 else ""


def _gpus() -> list[Path]:
    """Return the device files of GPUs."""
    return [*Path("/dev").glob("nvidia*"), *Path("/dev/dri").glob("*"), Path("/dev/kfd")]


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Drop root's privileges, such as changing files of other users; an ordinary user has none."""
    for capability in range(_CAPABILITIES):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    head = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0))
    if libc.capset(head, ctypes.create_string_buffer(24)) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refused to drop capabilities")
