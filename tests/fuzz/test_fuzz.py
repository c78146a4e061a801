"""A short run of benchmarks/fuzz.py, the same each time. Archives of torch, which are slow, are for the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "fuzz.py"
QUICK = "onnx,npz,npy,safetensors,store,toml,project,cause,baseline,ktest,float128,table"


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
    } <= set(taken)  # damage is not all there is
    assert done.stdout.count("files") == len(QUICK.split(","))
