"""A short run of benchmarks/fuzz.py, the same each time. Archives of torch, which are slow, are for the long one."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "fuzz.py"
QUICK = (
    "onnx,npz,npy,safetensors,store,toml,project,cause,baseline,ktest,float128,table,"
    "trace,journal,profile,job,progress,perf,bench"
)


def test_damaged_files_are_taken_or_refused() -> None:
    command = [sys.executable, str(SCRIPT), "--count", "2000", "--seed", "1", "--only", QUICK]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    taken = [line.split()[0] for line in done.stdout.splitlines() if "'taken'" in line]
    assert {
        "onnx",
        "npz",
        "safetensors",
        "store",
        "toml",
        "project",
        "cause",
        "baseline",
        "ktest",
        "float128",
        "table",
        "journal",
        "profile",
        "bench",
    } <= set(taken)  # damage is not all there is
    assert done.stdout.count("files") == len(QUICK.split(","))


def test_the_file_that_ends_a_process_is_kept(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("fuzz_of_damaged_files", SCRIPT)
    assert spec and spec.loader
    fuzz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    read = []

    def die_of_the_fourth(path: Path) -> None:
        read.append(path)
        if len(read) > 3:  # one is read before the process starts
            os.kill(os.getpid(), signal.SIGKILL)

    subject = fuzz.Subject("deadly", ".bin", lambda: [b"seed"], die_of_the_fourth, change=lambda data, *_: data + b"!")
    found = fuzz.fuzz(subject, 5, 0, tmp_path)
    assert found["counts"] == {"died": 5} and found["faults"][0]["file"] == b"seed!".hex()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"seed!"]
