"""A seccomp filter: denies workers the system calls that Landlock does not control.

Standard library only: this runs in environments that have nothing else.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from errno import EACCES, ENOENT, ENOSYS, EPERM
from pathlib import Path

_PR_SET_SECCOMP = 22
_TSYNC = 1  # for all threads of the process
_LOAD, _EQUAL, _ABOVE, _MASK, _GIVE = 0x20, 0x15, 0x35, 0x54, 0x06  # codes of the filter's instructions
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_X32 = 0x40000000  # the first number of x86-64's second set of system calls
_NEW_USER_NAMESPACE = 0x10000000
_UNIX, _STREAM, _SEQPACKET = 1, 1, 5
# Requests of ioctl that type into a terminal, change flags, attributes and versions of files, freeze file systems, and
# name a process that gets signals: TIOCSTI, TIOCLINUX, FS_IOC_SETFLAGS (two), FS_IOC_FSSETXATTR, FS_IOC_SETVERSION
# (two), FS_IOC_ENABLE_VERITY, FIFREEZE, FITHAW, FIOSETOWN, SIOCSPGRP.
_REQUESTS = (
    0x5412, 0x541C, 0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40047602, 0x40806685, 0xC0045877, 0xC0045878,
    0x8901, 0x8902,
)  # fmt: skip
_LOCKING = (6, 7, 37, 38)  # F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
_OWNING = (8, 15, 1024)  # F_SETOWN, F_SETOWN_EX, F_SETLEASE

# machine -> (audit number, column in the tables below)
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_ABSENT = -1

# name: (number on x86-64, number on 64-bit Arm)
# Compilers and linkers set modes and times of their own files; pretending that these calls succeed harms nothing.
PRETENDED = {
    "chmod": (90, _ABSENT), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "utime": (132, _ABSENT), "utimes": (235, _ABSENT), "futimesat": (261, _ABSENT),
}  # fmt: skip
DENIED = {
    # owners and attributes of files
    "chown": (92, _ABSENT), "fchown": (93, 55), "lchown": (94, _ABSENT), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466),
    "file_setattr": (469, 469), "open_by_handle_at": (304, 265),
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "migrate_pages": (256, 238), "kcmp": (312, 272),
    # kernel objects that outlive the process, and those of other processes
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semtimedop": (220, 192), "semctl": (66, 191), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # namespaces and mounts
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    # the machine
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266), "sethostname": (170, 161),
    "setdomainname": (171, 162), "syslog": (103, 116), "quotactl": (179, 60), "acct": (163, 89),
    "vhangup": (153, 58), "iopl": (172, _ABSENT), "ioperm": (173, _ABSENT), "fanotify_init": (300, 262),
}  # fmt: skip
# Programs that get ENOSYS for these use older calls, which the filter can read.
UNKNOWN = {"clone3": (435, 435), "io_uring_setup": (425, 425)}
READ = {
    "socket": (41, 198), "socketpair": (53, 199), "prlimit64": (302, 261), "clone": (56, 220), "ioctl": (16, 29),
    "kill": (62, 129), "utimensat": (280, 88), "fcntl": (72, 25), "move_pages": (279, 239),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
}  # fmt: skip

Instruction = tuple[int, int, int, int]  # code, lines to skip if it holds, lines to skip if not, number


def available() -> bool:
    """True if this kernel and machine can filter system calls."""
    return platform.machine() in _MACHINES and Path("/proc/sys/kernel/seccomp").exists()


def restrict() -> None:
    """Install the filter in this process, for good. Does nothing on machines that are not in the tables, or on a kernel
    without filters. Raises `OSError` if a kernel with filters refuses."""
    if platform.machine() not in _MACHINES:
        return
    program = _filter(*_MACHINES[platform.machine()])
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    call = {"x86_64": 317, "aarch64": 277}[platform.machine()]
    if libc.syscall(call, 1, _TSYNC, head) == 0 or libc.prctl(_PR_SET_SECCOMP, 2, head, 0, 0) == 0:
        return
    if available():
        raise OSError(ctypes.get_errno(), "the kernel refused the seccomp filter")


def _filter(machine: int, column: int) -> list[Instruction]:
    lines: list[Instruction] = [
        (_LOAD, 0, 0, _MACHINE),  # the system calls of another architecture have other numbers
        (_EQUAL, 1, 0, machine),
        _answer(ENOSYS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if column == 0:
        lines += [(_ABOVE, 0, 1, _X32), _answer(ENOSYS)]
    for table, error in ((PRETENDED, 0), (DENIED, EPERM), (UNKNOWN, ENOSYS)):
        for numbers in table.values():
            lines += _on(numbers[column], [_answer(error)])
    for name, body in _bodies(os.getpid()).items():
        lines += _on(READ[name][column], body)
    return [*lines, (_GIVE, 0, 0, _ALLOW)]


def _on(number: int, body: list[Instruction]) -> list[Instruction]:
    """Return the instructions that run `body`, which ends with an answer, for one system call."""
    return [] if number == _ABSENT else [(_EQUAL, 0, len(body), number), *body]


def _bodies(pid: int) -> dict[str, list[Instruction]]:
    """Return the instructions for the calls that are decided by their arguments."""
    allow: Instruction = (_GIVE, 0, 0, _ALLOW)
    first, second = (_LOAD, 0, 0, _ARGUMENTS), (_LOAD, 0, 0, _ARGUMENTS + 8)
    # The filter does not know the numbers of threads: for any but the caller, the call does nothing.
    own_first: list[Instruction] = [first, (_EQUAL, 2, 0, 0), (_EQUAL, 1, 0, pid), _answer(0), allow]
    own_second: list[Instruction] = [second, *own_first[1:]]
    return {
        "sched_setaffinity": own_first, "sched_setscheduler": own_first, "sched_setparam": own_first,
        "sched_setattr": own_first, "move_pages": [*own_first[:3], _answer(EPERM), allow],
        # The first argument says whether the second is a process, a group, or all processes of a user.
        "setpriority": [first, (_EQUAL, 1, 0, 0), _answer(0), *own_second],
        "ioprio_set": [first, (_EQUAL, 1, 0, 1), _answer(0), *own_second],
        # A lock that SQLite takes would block other users of a store. Compilers use `flock`, which SQLite ignores.
        "fcntl": [second, *_if_among(_LOCKING, _answer(0)), *_if_among(_OWNING, _answer(EPERM)), allow],
        "socket": [_answer(EACCES)],
        # The receiver of a datagram is in memory, which a filter cannot read.
        "socketpair": [
            first, (_EQUAL, 0, 4, _UNIX), second, (_MASK, 0, 0, 0xF),
            (_EQUAL, 2, 0, _STREAM), (_EQUAL, 1, 0, _SEQPACKET), _answer(EACCES), allow,
        ],
        "prlimit64": [first, (_EQUAL, 2, 0, 0), (_EQUAL, 1, 0, pid), _answer(EPERM), allow],
        "clone": [first, (_MASK, 0, 0, _NEW_USER_NAMESPACE), (_EQUAL, 1, 0, 0), _answer(EPERM), allow],
        "ioctl": [second, *_if_among(_REQUESTS, _answer(EPERM)), allow],
        "kill": [first, (_EQUAL, 0, 1, 0xFFFFFFFF), _answer(EPERM), allow],  # -1: all processes of the user
        # Setting the time of a path to now often means "create a missing file": then the caller must continue.
        "utimensat": [
            second, (_EQUAL, 0, 2, 0), (_LOAD, 0, 0, _ARGUMENTS + 12), (_EQUAL, 4, 0, 0),
            (_LOAD, 0, 0, _ARGUMENTS + 16), (_EQUAL, 0, 2, 0), (_LOAD, 0, 0, _ARGUMENTS + 20), (_EQUAL, 1, 0, 0),
            _answer(0), _answer(ENOENT),
        ],
    }  # fmt: skip


def _if_among(numbers: tuple[int, ...], answer: Instruction) -> list[Instruction]:
    """Return the instructions that give an answer if the loaded value is one of the numbers."""
    return [line for number in numbers for line in ((_EQUAL, 0, 1, number), answer)]


def _answer(error: int) -> Instruction:
    """Return the instruction that fails a call with an error, or, with 0, pretends that the call succeeded."""
    return (_GIVE, 0, 0, _ERRNO | error)
