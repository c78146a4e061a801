"""The lab on one device, for each model of the suite: capture, KernelDiff, and what the oracle says of TorchInductor.

    python benchmarks/lab.py --device cuda                      # all five models in full size, in a few minutes
    python benchmarks/lab.py --models resnet18 --size small     # a first look on the CPU

The commands of all models run at the same time, as many as there are processors for, so nothing is timed here:
`driftline bench` does that. A command that is not done after `--limit` seconds is ended, and named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftline.bench.suite import FULL, SMALL, SUITE, chosen_models
from driftline.core.errors import DriftlineError
from driftline.core.text import plural

COLUMNS = ("model", "captured", "KernelDiff", "the oracle")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(SUITE))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", choices=(FULL, SMALL), default=FULL)
    parser.add_argument(
        "--results", type=Path, default=Path("lab-results"), help="folder for captures, diffs and verdicts"
    )
    parser.add_argument("--limit", type=float, default=230.0, help="seconds after which no command runs on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="commands at a time")
    given = parser.parse_args()
    studies = []
    for name in chosen_models(given.models):
        try:
            studies.append(Study(name, given.size, given.device, given.results / name))
        except DriftlineError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    began = time.monotonic()
    # The longest first: whoever waits then waits for the short ones.
    commands = [study.commands[kind] for kind in ("check", "diff", "capture") for study in studies]
    with ThreadPoolExecutor(given.jobs) as threads:
        list(threads.map(lambda command: command.run(began + given.limit), commands))
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for study in studies:
        print(f"| {' | '.join(study.row())} |")
    print(f"\n{plural(len(commands), 'command')} in {time.monotonic() - began:.0f} s; pages are in {given.results}.")


@dataclass
class Command:
    """One call of Driftline, and how it ended."""

    words: Sequence[str]
    problem: str = "did not run"
    said: str = ""  # on stdout
    seconds: float = 0.0

    def run(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            self.problem = "there was no time left for it"
            return
        began = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, "-m", "driftline", *self.words, "--quiet", "--timeout", f"{max(left - 5, 1):.0f}"],
                capture_output=True, text=True, timeout=left,
            )  # fmt: skip
            self.said = done.stdout
            last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            self.problem = "" if done.returncode in (0, 1) else last[0]
        except subprocess.TimeoutExpired:
            self.problem = f"was not done after {left:.0f} s"
        self.seconds = time.monotonic() - began
        print(f"{' '.join(self.words[:2])}: {self.problem or 'done'} ({self.seconds:.0f} s)", file=sys.stderr)


class Study:
    """One model: its file, the three commands, and what they wrote."""

    def __init__(self, name: str, size: str, device: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self._folder = name, folder
        bundle = SUITE[name][size].bundle("float32")
        file = folder / f"{name}.py"
        file.write_text(bundle.files[bundle.entry_file])
        program = f"{file}:{bundle.entry_name}"
        target = "inductor" if device == "cpu" else f"inductor:device={device}"
        lab = ["--device", device, "--out"]
        self.commands = {
            "capture": Command(["inductor", "capture", program, *lab, str(folder / "capture")]),
            "diff": Command(["inductor", "diff", program, *lab, str(folder / "diff")]),
            "check": Command(
                ["check", program, "--targets", target, "--memory", "16", "--json", "--store", str(folder / "store")]
            ),
        }

    def row(self) -> tuple[str, ...]:
        said = {"capture": self._captured, "diff": self._compared, "check": self._judged}
        return (self.name, *(self.commands[kind].problem or tell() for kind, tell in said.items()))

    def _captured(self) -> str:
        found = self._read("capture", "capture.json")
        kernels = [kernel for one in found["compilations"] for kernel in one["kernels"]]
        lowered = [
            one["graphs"][stage] for one in found["compilations"] for stage in one["graphs"] if stage == "post_grad"
        ]
        nodes = sum(len(graph["nodes"]) for graph in lowered)
        languages = Counter(kernel["language"] for kernel in kernels)
        told = ", ".join(f"{count} {language}" for language, count in languages.items()) or "none"
        mapped = sum(bool(kernel["nodes"]) for kernel in kernels)
        error = f"; {found['error']}" if found["error"] else ""
        return (
            f"{plural(len(lowered), 'graph')} lowered, {plural(nodes, 'node')}; kernels: {told}; {mapped} of them with"
            f" their nodes{error}"
        )

    def _compared(self) -> str:
        found = self._read("diff", "diff.json")
        outputs = [
            f"{one['name']} max abs {one['metrics']['max_abs']:.2g}, {one['judgement']} by {one['rule']}"
            for one in found["outputs"]
            if one.get("metrics")
        ]
        return "; ".join(outputs) or str(found["summary"]).splitlines()[0]

    def _judged(self) -> str:
        results = json.loads(self.commands["check"].said)["results"]
        return "; ".join(f"`{one['target']}`: {one['verdict']}" for one in results)

    def _read(self, kind: str, file: str) -> Any:
        newest = max((self._folder / kind).glob(f"*/{file}"), key=lambda path: path.stat().st_mtime)
        return json.loads(newest.read_text())


if __name__ == "__main__":
    main()
