"""Peak memory and time of checking a big model: a 1.5 GB MLP, as Python source, .pt2 and ONNX with a data file.

    python benchmarks/big_models.py [--gigabytes 1.5] [--forms source,torch,onnx] [--targets eager,inductor,onnxruntime]

For each form it runs `driftline check` as a user would and adds up the proportional set size (PSS) of the whole process
tree four times a second: memory that processes share is counted once. Printed are the peak, its ratio to the size of
the model, and the time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

WIDTH = 4096
INTERVAL = 0.25  # seconds between two readings

SOURCE = """
import torch


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        return x + torch.nn.functional.gelu(self.linear(self.norm(x)))


def program():
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block({width}) for _ in range({layers}))).eval()
    return model, (torch.randn(4, {width}),)
"""

# Exports run in a process of their own, so that this one stays small.
EXPORT = """
import sys, torch
sys.path.insert(0, {folder!r})
import big
model, inputs = big.program()
with torch.no_grad():
    if {form!r} == "torch":
        torch.export.save(torch.export.export(model, inputs), {path!r})
    else:
        made = torch.onnx.export(model, inputs, dynamo=True, opset_version=18, input_names=["x"], verbose=False)
        made.save({path!r}, external_data=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.5)
    parser.add_argument("--forms", default="source,torch,onnx")
    parser.add_argument("--targets", default="eager,inductor,onnxruntime", help="those that take ONNX are used for it")
    parser.add_argument(
        "--folder", type=Path, help="where models are kept for the next run; default: removed at the end"
    )
    parser.add_argument("check", nargs="*", help="further options of driftline check, after --")
    options = parser.parse_args()
    layers = max(1, round(options.gigabytes * 1e9 / (4 * WIDTH * WIDTH)))
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"{layers} layers of {WIDTH}; {'form':8} {'model':>8} {'peak':>9} {'ratio':>6} {'time':>7}  verdicts")
        for form in options.forms.split(","):
            _measure(form, folder, Path(scratch), layers, options.targets, options.check)


def _measure(form: str, folder: Path, scratch: Path, layers: int, targets: str, more: list[str]) -> None:
    program = _program(form, folder, layers)
    if form == "onnx":
        targets = (
            ",".join(t for t in targets.split(",") if t not in ("eager", "inductor", "aot_eager")) or "onnxruntime"
        )
    store = scratch / f"store-{form}"
    command = [sys.executable, "-m", "driftline", "check", program, "--targets", targets, "--store", str(store), *more]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    peak = 0
    while process.poll() is None:
        peak = max(peak, tree_memory(process.pid))
        time.sleep(INTERVAL)
    seconds = time.monotonic() - began
    assert process.stdout is not None
    said = process.stdout.read()
    size = layers * 4 * (WIDTH * WIDTH + 3 * WIDTH)
    print(
        f"{form:8} {size / 1e9:6.2f}GB {peak / 1e9:7.2f}GB {peak / size:6.2f} {seconds:6.1f}s  {said.splitlines()[-1]}"
    )
    print(said, flush=True)


def _program(form: str, folder: Path, layers: int) -> str:
    source = folder / "big.py"
    source.write_text(SOURCE.format(width=WIDTH, layers=layers))
    if form == "source":
        return f"{source}:program"
    path = folder / (f"big-{layers}.pt2" if form == "torch" else f"big-{layers}.onnx")
    if not path.exists():
        script = EXPORT.format(folder=str(folder), form=form, path=str(path))
        subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
    return str(path)


def tree_memory(pid: int) -> int:
    """Bytes of a process and everything below it; what several of them share is counted once."""
    total = 0
    try:
        members = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return 0
    for member in members:
        try:
            with open(f"/proc/{member.pid}/smaps_rollup") as file:
                total += next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
    return total


if __name__ == "__main__":
    main()
