"""A run of composed models on five frameworks: how long it takes, and what it counts.

    python benchmarks/instabilities.py                     # 10 operators, length 2: some minutes
    python benchmarks/instabilities.py --ops exp,log,div --frameworks pytorch,onnx

Exit code 1 if it takes longer than ten minutes.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

OPS = "exp,log,div,sub,sqrt,softmax,sum,pow,mul,normalize"
FRAMEWORKS = "pytorch,torch_compile,onnx,openvino,xla"
ALLOWED = 600.0  # seconds
COUNTED = ("nan", "inf", "overflow", "underflow", "errors", "disagreements")


def driftline(*words: str) -> float:
    """Run a command; gives its seconds."""
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "driftline", *words], stdout=subprocess.DEVNULL)
    assert done.returncode in (0, 1), words
    return time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default=OPS)
    parser.add_argument("--length", type=int, default=2)
    parser.add_argument("--frameworks", default=FRAMEWORKS)
    parser.add_argument("--inputs", default="specials")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models, run = str(Path(folder) / "models"), Path(folder) / "run"
        composed = driftline("compose", "--out", models, "--ops", options.ops, "--length", str(options.length), "--all")
        ran = driftline(
            "instabilities", "--models", models, "--inputs", options.inputs, "--frameworks", options.frameworks,
            "--out", str(run), "--store", str(Path(folder) / "store"),
        )  # fmt: skip
        with open(run / "summary.csv") as file:
            rows = list(csv.DictReader(file))
    totals: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys((*COUNTED, "models", "wrong"), 0))
    for row in rows:
        own = totals[row["framework"]]
        for name in COUNTED:
            own[name] += int(row[name])
        own["models"] += 1
        own["wrong"] += bool(row["bugs"])
    print(f"{len({row['model'] for row in rows})} models composed in {composed:.0f} s, run in {ran:.0f} s")
    for framework, own in totals.items():
        print(f"{framework:14} {', '.join(f'{count:,} {name}' for name, count in own.items())}")
    return int(composed + ran > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
