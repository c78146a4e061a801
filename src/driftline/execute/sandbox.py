"""What a worker may do: read what the user can read, write to its scratch, and nothing on the network.

Programs in workers are generated, or come with a store or a model file, and code that was compiled wrongly may do
anything. Linux takes rights away for good, from a process and all that it starts: Landlock for writing, a seccomp
filter for sockets. Neither needs privileges. Where the kernel lacks them, programs still run, and `driftline doctor`
says so. `DRIFTLINE_SANDBOX=off` leaves everything as it is; `DRIFTLINE_WRITABLE` names further folders, with colons
between them.

Standard library only: this runs in environments that have nothing else.
"""

from __future__ import annotations

import ctypes
import os
import platform
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

SWITCH = "DRIFTLINE_SANDBOX"
MORE = "DRIFTLINE_WRITABLE"

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on all machines
_O_PATH = 0o10000000
# linux/landlock.h: write a file; remove directories and files; make nodes of seven kinds; since ABI 2 rename across
# folders, since 3 truncate
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_RIGHTS = {1: _WRITE_FILE | sum(1 << bit for bit in range(4, 13)), 2: 1 << 13, 3: _TRUNCATE}
_SCOPES = 0b11  # since ABI 6: abstract sockets of, and signals to, processes outside
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/random", "/dev/urandom", "/dev/shm", "/dev/pts")
# machine -> (audit number of its system calls, number of socket)
_CALLS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
_IO_URING_SETUP = 425
_DOMAINS = (2, 10, 17)  # IPv4, IPv6, raw packets


def wanted() -> bool:
    return os.environ.get(SWITCH, "on") != "off"


def enter(writable: Iterable[Path | str]) -> None:
    """Give up what a worker does not need. What the kernel cannot do is left as it is."""
    if not wanted():
        return
    _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    more = [place for place in os.environ.get(MORE, "").split(":") if place]
    _only_write_below([*writable, *more, *_DEVICES, *_gpus()])
    _no_sockets()


def shortcomings() -> list[str]:
    """What cannot be taken away from workers here, in words."""
    if not wanted():
        return [f"workers may write everywhere and use the network: {SWITCH} is off"]
    told = []
    if lacking := missing():
        told.append(f"workers may write wherever the user can: {lacking}")
    if platform.machine() not in _CALLS or not Path("/proc/sys/kernel/seccomp").exists():
        told.append("workers can use the network: there is no seccomp filter for this kernel or machine")
    return told


def missing() -> str:
    """What the sandbox cannot do without and this kernel does not have, in words."""
    return "this kernel has no Landlock" if landlock_abi() < 1 else ""


def landlock_abi() -> int:
    """The version of Landlock; 0 where there is none."""
    return max(0, int(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), 1)))


def _gpus() -> list[Path]:
    """The devices of GPUs, and what their drivers write."""
    return [*Path("/dev").glob("nvidia*"), *Path("/dev/dri").glob("*"), Path("/dev/kfd"), Path.home() / ".nv"]


def _only_write_below(places: Iterable[Path | str]) -> None:
    abi = landlock_abi()
    if abi < 1:
        return
    rights = sum(bits for since, bits in _RIGHTS.items() if since <= abi)
    attributes = struct.pack("=QQQ", rights, 0, _SCOPES if abi >= 6 else 0)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    ruleset = _libc().syscall(_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return
    try:
        for place in places:
            _allow(ruleset, str(place), rights)
        _libc().syscall(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, place: str, rights: int) -> None:
    try:
        fd = os.open(place, _O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _WRITE_FILE | _TRUNCATE
        _libc().syscall(_ADD, ruleset, 1, struct.pack("=Qi", rights, fd), 0)
    finally:
        os.close(fd)


def _no_sockets() -> None:
    """Refuse internet sockets, and the ring of calls that goes past this filter; local sockets stay."""
    if platform.machine() not in _CALLS:
        return
    machine, socket = _CALLS[platform.machine()]
    allow, deny, unknown = 0x7FFF0000, 0x00050000 | 13, 0x00050000 | 38  # EACCES, ENOSYS
    program = _filter(machine, socket, allow, deny, unknown)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    _libc().prctl(_PR_SET_SECCOMP, 2, head, 0, 0)


def _filter(machine: int, socket: int, allow: int, deny: int, unknown: int) -> list[tuple[int, int, int, int]]:
    """BPF: each line is a code, where to go when it holds and when not (lines to skip), and a number."""
    load, equal, give = 0x20, 0x15, 0x06
    return [
        (load, 0, 0, 4),  # whose system calls: another machine's kind would have other numbers
        (equal, 0, 9, machine),
        (load, 0, 0, 0),
        (equal, 7, 0, _IO_URING_SETUP),
        (equal, 0, 4, socket),
        (load, 0, 0, 16),  # its first argument
        *((equal, 3 - at, 0, domain) for at, domain in enumerate(_DOMAINS)),
        (give, 0, 0, allow),
        (give, 0, 0, deny),
        (give, 0, 0, unknown),
    ]


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
