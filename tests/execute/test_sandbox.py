"""Workers write to their scratch alone and have no network; they read what the user can read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from driftline.checking.doctor import describe_environment
from driftline.execute.sandbox import SWITCH, landlock_abi, shortcomings

ATTEMPTS = """
import json, os, socket, subprocess, sys
from driftline.execute.sandbox import enter
inside, outside = sys.argv[1:3]
enter([inside])

def tried(what):
    try:
        what()
        return "done"
    except OSError as error:
        return type(error).__name__

print(json.dumps({
    "write inside": tried(lambda: open(f"{inside}/file", "w").close()),
    "folder inside": tried(lambda: os.mkdir(f"{inside}/folder")),
    "rename inside": tried(lambda: os.rename(f"{inside}/file", f"{inside}/folder/file")),
    "write outside": tried(lambda: open(f"{outside}/file", "w").close()),
    "append outside": tried(lambda: open(f"{outside}/precious", "a").close()),
    "truncate outside": tried(lambda: os.truncate(f"{outside}/precious", 0)),
    "remove outside": tried(lambda: os.unlink(f"{outside}/precious")),
    "link outside": tried(lambda: os.symlink("x", f"{outside}/link")),
    "through a link": tried(lambda: (os.symlink(f"{outside}/precious", f"{inside}/l"), open(f"{inside}/l", "w"))),
    "read outside": tried(lambda: open(f"{outside}/precious").read()),
    "tcp": tried(lambda: socket.socket()),
    "udp": tried(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)),
    "local": tried(lambda: socket.socketpair()),
    "null": tried(lambda: subprocess.run(["true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)),
    "child": str(subprocess.run(["rm", f"{outside}/precious"], stderr=subprocess.DEVNULL).returncode),
    "signal": tried(lambda: os.kill(os.getppid(), 0)),
}))
"""


def attempts(folder: Path, **variables: str) -> dict[str, Any]:
    for name in ("inside", "outside"):
        (folder / name).mkdir()
    (folder / "outside" / "precious").write_text("precious")
    environment = {**os.environ, "DRIFTLINE_WRITABLE": "", **variables}
    command = [sys.executable, "-c", ATTEMPTS, str(folder / "inside"), str(folder / "outside")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(landlock_abi() < 3, reason="this kernel has no Landlock, or an old one")
def test_a_worker_writes_to_its_scratch_alone(tmp_path: Path) -> None:
    found = attempts(tmp_path)
    done = {what for what, result in found.items() if result == "done"}
    allowed = {"write inside", "folder inside", "rename inside", "read outside", "local", "null"}
    assert done - {"signal"} == allowed
    assert found["child"] != "0"
    assert found["tcp"] == found["udp"] == "PermissionError"
    assert (tmp_path / "outside" / "precious").read_text() == "precious"


def test_the_sandbox_can_be_switched_off(tmp_path: Path) -> None:
    found = attempts(tmp_path, **{SWITCH: "off"})
    assert found["write outside"] == found["tcp"] == "done"


def test_what_is_missing_is_said_by_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_environment()["sandbox"] == shortcomings()
    monkeypatch.setenv(SWITCH, "off")
    assert "is off" in describe_environment()["sandbox"][0]
    monkeypatch.setenv(SWITCH, "on")
    monkeypatch.setattr("driftline.execute.sandbox.landlock_abi", lambda: 0)
    assert any("no Landlock" in told for told in shortcomings())


PROGRAM = """
import socket

import torch


def program():
    {deed}
    return (lambda x: x + 1), (torch.zeros(2),)
"""


@pytest.mark.parametrize("deed", ["open({mark!r}, 'w')", "socket.create_connection(('127.0.0.1', 9), 1)"])
@pytest.mark.skipif(bool(shortcomings()), reason="this kernel cannot do it")
def test_a_program_that_writes_elsewhere_or_calls_home_is_refused(tmp_path: Path, deed: str) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "p.py").write_text(PROGRAM.format(deed=deed.format(mark=str(mark))))
    command = [sys.executable, "-m", "driftline", "check", "p.py:program", "--targets", "eager"]
    environment = {**os.environ, "DRIFTLINE_WRITABLE": ""}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 2 and "PermissionError" in done.stderr and "DRIFTLINE_SANDBOX" in done.stderr
    assert not mark.exists()
