"""A program in a worker cannot touch files, processes and sockets of the user. Each attack of `worker_attacks.py` has
its effect without the sandbox, and none with it."""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from worker_attacks import ATTACKS

from driftline.execute import landlock, seccomp
from driftline.execute.sandbox import MORE, SWITCH, layers, shortcomings

# Attacks that depend on the machine: on who runs them, or on what the kernel was built with.
MACHINE_DEPENDENT = {
    "change_an_owner", "set_up_io_uring", "enter_a_namespace", "enter_a_namespace_by_clone", "mount_something",
    "change_the_root", "make_a_device", "open_a_file_by_handle", "open_a_vsock", "open_netlink",
    "change_a_mode_by_the_newest_call", "write_to_a_terminal", "leave_a_segment_of_shared_memory",
    "leave_a_message_queue", "send_over_udp",
}  # fmt: skip


def _effects(folder: Path, switch: str) -> dict[str, bool]:
    """Run all attacks in one process and return which had an effect."""
    for name in ("scratch", "jobs", "home"):
        (folder / name).mkdir(parents=True)
    precious = folder / "home" / "precious"
    precious.write_text("precious")
    victim = subprocess.Popen(["sleep", "60"])
    listener, datagrams = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        listener.bind(f"{folder}/s")
        listener.listen()
        datagrams.bind(f"{folder}/s.datagrams")
        scene = {
            "scratch": str(folder / "scratch"), "jobs": str(folder / "jobs"), "home": str(folder / "home"),
            "precious": str(precious), "victim": victim.pid, "listener": f"{folder}/s",
        }  # fmt: skip
        command = [sys.executable, str(Path(__file__).with_name("worker_attacks.py")), json.dumps(scene)]
        environment = {**os.environ, SWITCH: switch, MORE: ""}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    finally:
        victim.kill()
        victim.wait()
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
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert layers()["Landlock"] == "missing"
    assert any("no Landlock" in told for told in shortcomings())
    monkeypatch.setattr(landlock, "abi", lambda: 5)
    assert any("signal" in told for told in shortcomings())
