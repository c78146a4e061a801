"""Attacks that a program in a worker may try, run in a process of their own by `test_worker_rights.py`.

Each function returns True if the attack had its effect. An exception counts as a refusal.
"""

# ruff: noqa: PTH101, PTH211

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from driftline.execute import landlock, sandbox, seccomp


@dataclass(frozen=True)
class Scene:
    """What the test prepared for the attacker."""

    scratch: Path  # may be written to
    jobs: Path  # plain files may be made there; the parent of the worker reads them
    home: Path  # files of the user
    precious: Path  # a file of the user
    victim: int  # a process of the user
    listener: str  # a local socket on which a process of the user listens
    segment: int  # shared memory of the user; -1 where the kernel has none
    queue: int  # a queue of messages
    semaphores: int


Attack = Callable[[Scene], bool]
ATTACKS: dict[str, Attack] = {}


def attack(function: Attack) -> Attack:
    ATTACKS[function.__name__] = function
    return function


def _syscall(number: dict[str, int], *arguments: object) -> int:
    machine = os.uname().machine
    return int(ctypes.CDLL(None, use_errno=True).syscall(number[machine], *arguments))


@attack
def write_a_new_file(scene: Scene) -> bool:
    (scene.home / "planted").write_text("x")
    return (scene.home / "planted").exists()


@attack
def append_to_a_file(scene: Scene) -> bool:
    with scene.precious.open("a") as file:
        file.write("x")
    return True


@attack
def truncate_a_file(scene: Scene) -> bool:
    os.truncate(scene.precious, 1)
    return scene.precious.stat().st_size == 1


@attack
def rename_a_file(scene: Scene) -> bool:
    os.rename(scene.precious, scene.home / "renamed")
    os.rename(scene.home / "renamed", scene.precious)
    return True


@attack
def make_a_link_in_the_home(scene: Scene) -> bool:
    os.symlink("/etc/passwd", scene.home / "link")
    return True


@attack
def write_through_a_link(scene: Scene) -> bool:
    os.symlink(scene.precious, scene.scratch / "through")
    (scene.scratch / "through").write_text("x")
    return True


@attack
def write_through_a_second_name(scene: Scene) -> bool:
    os.link(scene.precious, scene.scratch / "second")
    (scene.scratch / "second").write_text("x")
    return True


@attack
def write_in_a_child(scene: Scene) -> bool:
    subprocess.run(["touch", str(scene.home / "child")], capture_output=True)
    return (scene.home / "child").exists()


@attack
def replace_the_scratch_folder(scene: Scene) -> bool:
    os.rename(scene.scratch, scene.scratch.with_name("moved"))
    os.rename(scene.scratch.with_name("moved"), scene.scratch)
    return True


@attack
def put_a_link_where_the_parent_reads(scene: Scene) -> bool:
    os.symlink(scene.precious, scene.jobs / "0.safetensors")
    return True


@attack
def move_a_link_to_where_the_parent_reads(scene: Scene) -> bool:
    os.symlink(scene.precious, scene.scratch / "carried")
    os.rename(scene.scratch / "carried", scene.jobs / "1.safetensors")
    return True


@attack
def put_a_second_name_where_the_parent_reads(scene: Scene) -> bool:
    os.link(scene.precious, scene.jobs / "2.safetensors")
    return True


@attack
def put_a_pipe_where_the_parent_reads(scene: Scene) -> bool:
    os.mkfifo(scene.jobs / "3.safetensors")
    return True


@attack
def put_a_socket_where_the_parent_reads(scene: Scene) -> bool:
    socket.socket(socket.AF_UNIX).bind(str(scene.jobs / "4.safetensors"))
    return True


@attack
def change_a_mode(scene: Scene) -> bool:
    os.chmod(scene.precious, 0o777)
    return stat.S_IMODE(scene.precious.stat().st_mode) == 0o777


@attack
def change_a_mode_by_descriptor(scene: Scene) -> bool:
    fd = os.open(scene.precious, os.O_RDONLY)
    os.fchmod(fd, 0o707)
    return stat.S_IMODE(scene.precious.stat().st_mode) == 0o707


@attack
def change_a_mode_by_the_newest_call(scene: Scene) -> bool:
    fd = os.open(scene.home, os.O_RDONLY)
    _syscall({"x86_64": 452, "aarch64": 452}, fd, scene.precious.name.encode(), 0o717, 0)
    return stat.S_IMODE(scene.precious.stat().st_mode) == 0o717


@attack
def change_an_owner(scene: Scene) -> bool:
    os.chown(scene.precious, 12345, -1)
    return scene.precious.stat().st_uid == 12345


@attack
def change_a_time(scene: Scene) -> bool:
    os.utime(scene.precious, (1, 1))
    return scene.precious.stat().st_mtime == 1


@attack
def change_a_time_by_descriptor(scene: Scene) -> bool:
    os.utime(os.open(scene.precious, os.O_RDONLY), (2, 2))
    return scene.precious.stat().st_mtime == 2


@attack
def set_an_attribute(scene: Scene) -> bool:
    os.setxattr(scene.precious, "user.planted", b"x")
    return True


@attack
def remove_an_attribute(scene: Scene) -> bool:
    os.removexattr(scene.precious, "user.mark")
    return True


@attack
def limit_another_process(scene: Scene) -> bool:
    resource.prlimit(scene.victim, resource.RLIMIT_NOFILE, (3, 3))
    return True


@attack
def signal_another_process(scene: Scene) -> bool:
    os.kill(scene.victim, 0)
    return True


@attack
def signal_by_process_descriptor(scene: Scene) -> bool:
    signal.pidfd_send_signal(os.pidfd_open(scene.victim), signal.SIGCONT)
    return True


@attack
def trace_another_process(scene: Scene) -> bool:
    seize = 0x4206
    return _syscall({"x86_64": 101, "aarch64": 117}, seize, scene.victim, None, None) == 0


@attack
def read_the_memory_of_another_process(scene: Scene) -> bool:
    with open(f"/proc/{scene.victim}/mem", "rb"):
        return True


@attack
def connect_over_tcp(scene: Scene) -> bool:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    return True


@attack
def send_over_udp(scene: Scene) -> bool:
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    return True


@attack
def connect_to_a_local_socket(scene: Scene) -> bool:
    socket.socket(socket.AF_UNIX).connect(scene.listener)
    return True


@attack
def send_a_datagram_to_a_local_socket(scene: Scene) -> bool:
    left, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    left.sendto(b"x", scene.listener + ".datagrams")
    return True


@attack
def open_netlink(scene: Scene) -> bool:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
    return True


@attack
def open_a_vsock(scene: Scene) -> bool:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    return True


@attack
def set_up_io_uring(scene: Scene) -> bool:
    parameters = ctypes.create_string_buffer(120)
    return _syscall({"x86_64": 425, "aarch64": 425}, 2, parameters) >= 0


@attack
def leave_a_file_in_shared_memory(scene: Scene) -> bool:
    place = Path(f"/dev/shm/driftline-attack-{scene.victim}")
    place.write_text("x")
    place.unlink()
    return True


@attack
def leave_a_segment_of_shared_memory(scene: Scene) -> bool:
    segment = _syscall({"x86_64": 29, "aarch64": 194}, 0, 4096, 0o1600)
    if segment < 0:
        return False
    _syscall({"x86_64": 31, "aarch64": 195}, segment, 0, None)  # remove it
    return True


@attack
def leave_a_message_queue(scene: Scene) -> bool:
    queue = _syscall({"x86_64": 68, "aarch64": 186}, 0, 0o1600)
    if queue < 0:
        return False
    _syscall({"x86_64": 71, "aarch64": 187}, queue, 0, None)
    return True


@attack
def slow_another_process(scene: Scene) -> bool:
    os.setpriority(os.PRIO_PROCESS, scene.victim, 19)
    return os.getpriority(os.PRIO_PROCESS, scene.victim) == 19


@attack
def slow_all_processes_of_the_user(scene: Scene) -> bool:
    os.setpriority(os.PRIO_PGRP, os.getpgid(scene.victim), 18)
    return os.getpriority(os.PRIO_PROCESS, scene.victim) == 18


@attack
def bind_another_process_to_a_processor(scene: Scene) -> bool:
    one = {min(os.sched_getaffinity(scene.victim))}
    os.sched_setaffinity(scene.victim, one)
    return os.sched_getaffinity(scene.victim) == one


@attack
def let_another_process_run_only_when_idle(scene: Scene) -> bool:
    os.sched_setscheduler(scene.victim, os.SCHED_IDLE, os.sched_param(0))
    return os.sched_getscheduler(scene.victim) == os.SCHED_IDLE


@attack
def slow_the_reading_of_another_process(scene: Scene) -> bool:
    idle = 3 << 13
    _syscall({"x86_64": 251, "aarch64": 30}, 1, scene.victim, idle)
    return _syscall({"x86_64": 252, "aarch64": 31}, 1, scene.victim) == idle


@attack
def attach_shared_memory(scene: Scene) -> bool:
    return scene.segment >= 0 and _syscall({"x86_64": 30, "aarch64": 196}, scene.segment, None, 0) != -1


@attack
def remove_shared_memory(scene: Scene) -> bool:
    return scene.segment >= 0 and _syscall({"x86_64": 31, "aarch64": 195}, scene.segment, 0, None) == 0


@attack
def remove_a_message_queue(scene: Scene) -> bool:
    return scene.queue >= 0 and _syscall({"x86_64": 71, "aarch64": 187}, scene.queue, 0, None) == 0


@attack
def change_semaphores(scene: Scene) -> bool:
    raised = struct.pack("hhh", 0, 1, 0)
    return scene.semaphores >= 0 and _syscall({"x86_64": 65, "aarch64": 193}, scene.semaphores, raised, 1) == 0


@attack
def remove_semaphores(scene: Scene) -> bool:
    return scene.semaphores >= 0 and _syscall({"x86_64": 66, "aarch64": 191}, scene.semaphores, 0, 0, None) == 0


@attack
def remove_a_queue_by_name(scene: Scene) -> bool:
    name = f"driftline-attack-{scene.victim}".encode()
    return _syscall({"x86_64": 241, "aarch64": 181}, name) == 0


def _is_locked(path: Path) -> bool:
    """True if another process finds a lock of this one on a file."""
    pid = os.fork()
    if pid == 0:
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        found = fcntl.fcntl(os.open(path, os.O_RDONLY), fcntl.F_GETLK, asked)
        os._exit(struct.unpack_from("h", found)[0] != fcntl.F_UNLCK)
    return os.waitpid(pid, 0)[1] != 0


@attack
def lock_a_database(scene: Scene) -> bool:
    fd = os.open(scene.precious, os.O_RDONLY)
    fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    found = _is_locked(scene.precious)
    os.close(fd)
    return found


@attack
def lock_a_database_by_open_file(scene: Scene) -> bool:
    fd, set_lock = os.open(scene.precious, os.O_RDONLY), 37
    fcntl.fcntl(fd, set_lock, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    found = _is_locked(scene.precious)
    os.close(fd)
    return found


@attack
def lease_a_file(scene: Scene) -> bool:
    """Whoever opens the file then waits for the attacker."""
    fd = os.open(scene.precious, os.O_RDONLY)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    os.close(fd)
    return True


@attack
def have_another_process_get_signals(scene: Scene) -> bool:
    reading, _ = os.pipe()
    fcntl.fcntl(reading, fcntl.F_SETOWN, scene.victim)
    return fcntl.fcntl(reading, fcntl.F_GETOWN) == scene.victim


@attack
def change_flags_of_a_file(scene: Scene) -> bool:
    fd, no_dump = os.open(scene.precious, os.O_RDONLY), 0x40
    fcntl.ioctl(fd, 0x40086602, struct.pack("Q", no_dump))
    flags = bytearray(8)
    fcntl.ioctl(fd, 0x80086601, flags)
    return bool(struct.unpack("Q", flags)[0] & no_dump)


@attack
def enter_a_namespace(scene: Scene) -> bool:
    user, mounts = 0x10000000, 0x20000
    return _syscall({"x86_64": 272, "aarch64": 97}, user | mounts) == 0


@attack
def enter_a_namespace_by_clone(scene: Scene) -> bool:
    flags = 0x10000000 | signal.SIGCHLD
    pid = _syscall({"x86_64": 56, "aarch64": 220}, flags, None, None, None, None)
    if pid == 0:
        os._exit(0)
    if pid > 0:
        os.waitpid(pid, 0)
    return pid > 0


@attack
def mount_something(scene: Scene) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", str(scene.scratch).encode(), b"tmpfs", 0, None) != 0:
        return False
    libc.umount(str(scene.scratch).encode())
    return True


@attack
def change_the_root(scene: Scene) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            os.chroot(scene.home)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


@attack
def make_a_device(scene: Scene) -> bool:
    os.mknod(scene.scratch / "memory", stat.S_IFCHR | 0o600, os.makedev(1, 1))
    return True


@attack
def open_a_file_by_handle(scene: Scene) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    handle, mount = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128)), ctypes.c_int()
    if libc.name_to_handle_at(-100, str(scene.precious).encode(), handle, ctypes.byref(mount), 0) != 0:
        return False
    fd = os.open(scene.home, os.O_RDONLY)
    return int(libc.open_by_handle_at(fd, handle, os.O_RDONLY)) >= 0


@attack
def write_to_a_terminal(scene: Scene) -> bool:
    _, terminal = os.openpty()
    with open(os.ttyname(terminal), "w"):
        return True


def main() -> None:
    given = json.loads(sys.argv[1])
    scratch, jobs, home, precious = (Path(given[name]) for name in ("scratch", "jobs", "home", "precious"))
    scene = Scene(scratch, jobs, home, precious, given["victim"], given["listener"], *given["objects"])
    os.setxattr(scene.precious, "user.mark", b"x")
    for layer in given["without"]:
        setattr(*LAYERS[layer])
    sandbox.enter([scene.scratch], [scene.jobs])
    print(json.dumps({name: _had_effect(function, scene) for name, function in ATTACKS.items()}))


LAYERS = {
    "Landlock": (landlock, "restrict", lambda writable, plain: None),
    "seccomp": (seccomp, "restrict", lambda: None),
    "capabilities": (sandbox, "_drop_capabilities", lambda libc: None),
}


def make_objects(name: str) -> tuple[int, int, int]:
    """Make a segment of memory, a queue and semaphores that the kernel keeps, and a queue with a name."""
    _syscall({"x86_64": 240, "aarch64": 180}, name.encode(), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600, None)
    return (
        _syscall({"x86_64": 29, "aarch64": 194}, 0, 4096, 0o1600),
        _syscall({"x86_64": 68, "aarch64": 186}, 0, 0o1600),
        _syscall({"x86_64": 64, "aarch64": 190}, 0, 1, 0o1600),
    )


def remove_objects(made: tuple[int, int, int], name: str) -> None:
    """Remove what `make_objects` made, if it is still there."""
    segment, queue, semaphores = made
    _syscall({"x86_64": 31, "aarch64": 195}, segment, 0, None)
    _syscall({"x86_64": 71, "aarch64": 187}, queue, 0, None)
    _syscall({"x86_64": 66, "aarch64": 191}, semaphores, 0, 0, None)
    _syscall({"x86_64": 241, "aarch64": 181}, name.encode())


def _had_effect(function: Attack, scene: Scene) -> bool:
    try:
        return function(scene)
    except OSError:
        return False


if __name__ == "__main__":
    main()
