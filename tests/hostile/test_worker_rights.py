"""A program in a worker cannot touch files, processes and sockets of the user. Each attack of `worker_attacks.py` has
its effect without the sandbox, and none with it."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from worker_attacks import ATTACKS, make_objects, remove_objects

from driftline.checking.doctor import describe_environment
from driftline.execute import landlock, sandbox, seccomp
from driftline.execute.sandbox import MORE, SWITCH, in_force, layers, shortcomings

# Attacks that depend on the machine: on who runs them, or on what the kernel was built with.
MACHINE_DEPENDENT = {
    "change_an_owner", "set_up_io_uring", "enter_a_namespace", "enter_a_namespace_by_clone", "mount_something",
    "change_the_root", "make_a_device", "open_a_file_by_handle", "open_a_vsock", "open_netlink",
    "change_a_mode_by_the_newest_call", "write_to_a_terminal", "leave_a_segment_of_shared_memory",
    "leave_a_message_queue", "send_over_udp", "attach_shared_memory", "remove_shared_memory", "remove_a_message_queue",
    "change_semaphores", "remove_semaphores", "remove_a_queue_by_name", "lease_a_file", "change_flags_of_a_file",
    "slow_the_reading_of_another_process",
}  # fmt: skip


def _effects(folder: Path, switch: str, without: tuple[str, ...] = ()) -> dict[str, bool]:
    """Run all attacks in one process and return which had an effect. `without`: layers that are left out."""
    for name in ("scratch", "jobs", "home"):
        (folder / name).mkdir(parents=True)
    precious = folder / "home" / "precious"
    precious.write_text("precious")
    victim = subprocess.Popen(["sleep", "60"], process_group=0)
    name = f"driftline-attack-{victim.pid}"
    objects = make_objects(name)
    listener, datagrams = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        listener.bind(f"{folder}/s")
        listener.listen()
        datagrams.bind(f"{folder}/s.datagrams")
        scene = {
            "scratch": str(folder / "scratch"), "jobs": str(folder / "jobs"), "home": str(folder / "home"),
            "precious": str(precious), "victim": victim.pid, "listener": f"{folder}/s", "without": without,
            "objects": objects,
        }  # fmt: skip
        command = [sys.executable, str(Path(__file__).with_name("worker_attacks.py")), json.dumps(scene)]
        environment = {**os.environ, SWITCH: switch, MORE: ""}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    finally:
        victim.kill()
        victim.wait()
        remove_objects(objects, name)
        listener.close()
        datagrams.close()
    assert done.returncode == 0, done.stderr
    found: dict[str, bool] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def effects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bool]]:
    folder = tmp_path_factory.mktemp("a")
    return {switch: _effects(folder / switch, switch) for switch in ("on", "off")}


@pytest.mark.skipif(bool(shortcomings()), reason="this kernel lacks a layer of the sandbox")
@pytest.mark.parametrize("name", ATTACKS)
def test_attack_has_no_effect_in_the_sandbox(name: str, effects: dict[str, dict[str, bool]]) -> None:
    assert not effects["on"][name]


@pytest.mark.parametrize("name", sorted(ATTACKS.keys() - MACHINE_DEPENDENT))
def test_attack_has_its_effect_without_the_sandbox(name: str, effects: dict[str, dict[str, bool]]) -> None:
    assert effects["off"][name]


# What each layer keeps from a worker if no other layer is there.
ALONE = {
    "Landlock": (
        "write_a_new_file", "append_to_a_file", "rename_a_file", "write_in_a_child", "replace_the_scratch_folder",
        "put_a_link_where_the_parent_reads", "put_a_pipe_where_the_parent_reads", "leave_a_file_in_shared_memory",
    ),
    "seccomp": (
        "connect_over_tcp", "connect_to_a_local_socket", "change_a_mode", "change_a_time", "set_an_attribute",
        "limit_another_process", "slow_another_process", "bind_another_process_to_a_processor", "lock_a_database",
        "lock_a_database_by_open_file", "remove_shared_memory", "remove_a_queue_by_name", "change_flags_of_a_file",
        "trace_another_process", "have_another_process_get_signals", "lease_a_file",
    ),
}  # fmt: skip


@pytest.mark.skipif(bool(shortcomings()), reason="this kernel lacks a layer of the sandbox")
@pytest.mark.parametrize("layer", ALONE)
def test_layer_does_its_part_alone(layer: str, tmp_path: Path) -> None:
    others = tuple({"Landlock", "seccomp", "capabilities"} - {layer})
    found = _effects(tmp_path / "a", "on", others)
    assert [name for name in ALONE[layer] if found[name]] == []


WITHOUT = {
    "Landlock": "landlock.restrict = lambda writable, plain: None",
    "seccomp": "seccomp.restrict = lambda: None",
    "capabilities": "sandbox._drop_capabilities = lambda libc: None",
}


@pytest.mark.skipif(bool(shortcomings()), reason="this kernel lacks a layer of the sandbox")
@pytest.mark.parametrize("layer", WITHOUT)
def test_others_hold_without_one_layer_and_doctor_names_it(
    layer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _effects(tmp_path / "a", "on", (layer,))
    for other, names in ALONE.items():
        assert other == layer or [name for name in names if found[name]] == []
    assert layer not in ALONE or any(found[name] for name in ALONE[layer])
    imported = "from driftline.execute.sandbox import enter\n"
    lacking = f"from driftline.execute import landlock, sandbox, seccomp\n{WITHOUT[layer]}\n"
    assert imported in sandbox._TRY
    monkeypatch.setattr(sandbox, "_TRY", sandbox._TRY.replace(imported, imported + lacking))
    missing = {name for name, told in describe_environment()["sandbox_layers"].items() if told.startswith("missing")}
    assert missing == ({layer} if layer != "capabilities" or os.geteuid() == 0 else set())


@pytest.mark.skipif(bool(shortcomings()), reason="this kernel lacks a layer of the sandbox")
@pytest.mark.parametrize("module", ["landlock", "seccomp"])
def test_refused_layer_ends_the_worker(module: str) -> None:
    """The kernel offers the layer and does not give it: nothing may run then."""
    refusing = (
        "import ctypes, os\nfrom driftline.execute import landlock, sandbox, seccomp\n"
        "class Libc:\n"
        "    def __getattr__(self, name):\n"
        "        return (lambda *given: 7) if given_abi and name == 'syscall' else (lambda *given: -1)\n"
        f"given_abi = False\nreal, {module}.ctypes.CDLL = ctypes.CDLL, lambda *a, **k: Libc()\n"
    )
    body = {
        "landlock": "landlock.abi = lambda: 6\nlandlock.restrict([], [])",
        "seccomp": "seccomp.restrict()",
    }[module]
    done = subprocess.run([sys.executable, "-c", refusing + body], capture_output=True, text=True, timeout=60)
    assert "the kernel" in done.stderr.splitlines()[-1]
    assert done.returncode == 1


LOCKING = """
import fcntl, os, sys
from driftline.execute.sandbox import enter
enter([])
held = [os.open(sys.argv[1] + end, os.O_RDONLY) for end in ("", "-shm")]
for fd in held:
    fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 120) if fd == held[1] else fcntl.flock(fd, fcntl.LOCK_EX)
print("locked", flush=True)
input()
"""


@pytest.mark.skipif(bool(shortcomings()), reason="this kernel lacks a layer of the sandbox")
@pytest.mark.parametrize("switch", ["on", "off"])
def test_worker_cannot_keep_a_finding_from_a_database(tmp_path: Path, switch: str) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "s.db", timeout=0.2, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE findings (name)")
        environment = {**os.environ, SWITCH: switch, MORE: ""}
        command = [sys.executable, "-c", LOCKING, str(tmp_path / "s.db")]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        ) as attacker:
            try:
                assert attacker.stdout
                assert attacker.stdout.readline() == "locked\n"
                with pytest.raises(sqlite3.OperationalError, match="locked") if switch == "off" else _fine():
                    database.execute("INSERT INTO findings VALUES ('a')")
            finally:
                attacker.kill()


def _fine() -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


@pytest.mark.parametrize("name", sorted(MACHINE_DEPENDENT))
def test_attack_that_depends_on_the_machine_is_one_of_the_attacks(name: str) -> None:
    assert name in ATTACKS


def test_numbers_of_system_calls_are_those_of_this_machine(tmp_path: Path) -> None:
    tables = (seccomp.PRETENDED, seccomp.DENIED, seccomp.UNKNOWN, seccomp.READ)
    column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
    asked = {name: numbers[column] for table in tables for name, numbers in table.items()}
    source = "#include <sys/syscall.h>\n" + "".join(f"{name}_is SYS_{name}\n" for name in asked)
    done = subprocess.run(["g++", "-E", "-P", "-x", "c", "-"], input=source, capture_output=True, text=True)
    known = {name: int(number) for name, number in re.findall(r"^(\w+)_is (\d+)$", done.stdout, re.MULTILINE)}
    assert len(known) > 40  # older headers lack the newest calls
    assert known == {name: asked[name] for name in known}


def test_doctor_names_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(layers()) == ["Landlock", "seccomp", "capabilities"]
    assert in_force() == layers()
    monkeypatch.setattr("driftline.execute.sandbox.got", lambda: ["seccomp", "capabilities"])
    assert in_force()["Landlock"] == "missing, though the kernel offers Landlock"
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert layers()["Landlock"] == "missing"
    assert any("no Landlock" in told for told in shortcomings())
    monkeypatch.setattr(landlock, "abi", lambda: 5)
    assert any("signal" in told for told in shortcomings())
