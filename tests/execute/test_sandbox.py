"""Workers can do in the sandbox what compilers need; what they cannot do is in `tests/hostile`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from driftline.checking.doctor import describe_environment
from driftline.execute.sandbox import SWITCH, shortcomings

USES = """
import json, os, pathlib, shutil, socket, subprocess, sys, tempfile, threading
from driftline.execute.sandbox import enter
scratch, jobs, outside = sys.argv[1:4]
enter([scratch], [jobs])

def tried(what):
    try:
        what()
        return "done"
    except OSError as error:
        return type(error).__name__

print(json.dumps({
    "write": tried(lambda: open(f"{scratch}/file", "w").close()),
    "folder": tried(lambda: os.mkdir(f"{scratch}/folder")),
    "rename": tried(lambda: os.rename(f"{scratch}/file", f"{scratch}/folder/file")),
    "link": tried(lambda: os.symlink("file", f"{scratch}/link")),
    "touch": tried(lambda: (pathlib.Path(f"{scratch}/touched").touch(), os.stat(f"{scratch}/touched"))),
    "copy": tried(lambda: shutil.copy2(f"{scratch}/touched", f"{scratch}/copied")),
    "mode": tried(lambda: os.chmod(scratch, 0o700)),
    "result": tried(lambda: open(f"{jobs}/result.part", "w").close()),
    "rename a result": tried(lambda: os.rename(f"{jobs}/result.part", f"{jobs}/result")),
    "read": tried(lambda: open(f"{outside}/data").read()),
    "pair": tried(lambda: socket.socketpair()),
    "null": tried(lambda: subprocess.run(["true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)),
    "temporary": tried(lambda: tempfile.TemporaryFile(dir=scratch).close()),
    "thread": tried(lambda: threading.Thread(target=print).start()),
    "kill a child": tried(lambda: subprocess.Popen(["sleep", "60"]).kill()),
}))
"""


def test_what_compilers_need_works_in_the_sandbox(tmp_path: Path) -> None:
    for name in ("scratch", "jobs", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "data").write_text("data")
    command = [sys.executable, "-c", USES, *(str(tmp_path / name) for name in ("scratch", "jobs", "outside"))]
    environment = {**os.environ, "DRIFTLINE_WRITABLE": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout.splitlines()[-1]).values()) == {"done"}


def test_doctor_says_that_the_sandbox_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_environment()["sandbox"] == shortcomings()
    monkeypatch.setenv(SWITCH, "off")
    assert "is off" in describe_environment()["sandbox"][0]


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
