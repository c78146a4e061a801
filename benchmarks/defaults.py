"""What the defaults of `driftline check` cost: ten ordinary models, with the defaults and with `--calls 1 --no-grad`.

    python benchmarks/defaults.py
    python benchmarks/defaults.py --only bert,resnet --targets aot_eager,inductor --out rows.jsonl

The defaults call each compiled program again with other values and with another batch size, and compare the gradient of
a program that asks for one. Each check is a command of its own, as a person types it, with a store of its own. Measured
are the processor seconds of the command and all its workers, which neighbours do not change, and the seconds of the
clock. Prints a table; exits 1 when the ten models together take more than 1.6 times the seconds, or when a row fails
that passes without the defaults. With `--out`, a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _lines import append_line, read_lines

# Of each kind: tables, recurrence, graphs, vision, text; the last two are steps of training, which ask for gradients.
MODELS = (
    "recommender", "lstm-tagger", "graph-net", "resnet-18-narrow", "gpt2-prompt", "distilbert", "vit", "pointnet",
    "resnet-train", "lstm-train",
)  # fmt: skip
TARGETS = "eager,aot_eager_decomp,inductor,onnxruntime"
MOST = 1.6
SIDES: Mapping[str, Sequence[str]] = {"plain": ("--calls", "1", "--no-grad"), "defaults": ()}


def main() -> int:
    given = _arguments()
    out = given.out or Path(tempfile.mkdtemp()) / "rows.jsonl"
    done = {(row["model"], row["side"]) for row in read_lines(out)}
    for model in given.only:
        for side, options in SIDES.items():
            if (model, side) not in done:
                append_line(out, {"model": model, "side": side, **_checked(model, given.targets, options)})
    return _report(read_lines(out))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=MODELS, metavar="LIST", help="models")
    parser.add_argument("--targets", default=TARGETS, help="of the checks; a preset such as 'default' works, too")
    parser.add_argument("--out", type=Path, metavar="FILE", help="rows as JSON lines; those in the file are kept")
    return parser.parse_args()


def _checked(model: str, targets: str, options: Sequence[str]) -> dict[str, Any]:
    """Run one check as a command; return its seconds and its verdicts."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "driftline", "check", f"model:{model}", "--targets", targets]
        words += ["--jobs", "1", "--json", "--store", folder, *options]
        began, before = time.monotonic(), _used()
        ended = subprocess.run(words, capture_output=True, text=True)
        wall, processor = time.monotonic() - began, _used() - before
    if ended.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(words)} ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
    rows = json.loads(ended.stdout)["results"]
    return {
        "wall": round(wall, 1),
        "processor": round(processor, 1),
        "verdicts": {row["target"]: row["verdict"] for row in rows},
        "reasons": {row["target"]: row["reason"] for row in rows if row["verdict"] == "fail"},
        "compared": sorted({aspect for row in rows for aspect in row["compared"]}),
    }


def _used() -> float:
    """Processor seconds of the commands that have ended, and of what they waited for."""
    times = os.times()
    return times.children_user + times.children_system


def _report(rows: Sequence[Mapping[str, Any]]) -> int:
    by_model: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        by_model.setdefault(row["model"], {})[row["side"]] = row
    by_model = {model: sides for model, sides in by_model.items() if sides.keys() == SIDES.keys()}
    print("| model | processor seconds, plain | with the defaults | ratio | ratio by the clock | beside the outputs |")
    print("|---|---|---|---|---|---|")
    failing = []
    for model, sides in by_model.items():
        plain, usual = sides["plain"], sides["defaults"]
        aspects = ", ".join(aspect for aspect in usual["compared"] if aspect != "outputs")
        print(f"| {model} | {_figures(plain, usual)} | {aspects} |")
        failing += [
            f"{model} on {target}: {usual['reasons'][target]}"
            for target, verdict in usual["verdicts"].items()
            if verdict == "fail" and plain["verdicts"].get(target) != "fail"
        ]
    total = {
        side: {unit: sum(sides[side][unit] for sides in by_model.values()) for unit in ("processor", "wall")}
        for side in SIDES
    }
    print(f"| all | {_figures(total['plain'], total['defaults'])} | |")
    for sentence in failing:
        print(f"Fails with the defaults alone: {sentence}")
    ratio = total["defaults"]["processor"] / total["plain"]["processor"]
    return int(ratio > MOST or bool(failing))


def _figures(plain: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    ratio, clock = usual["processor"] / plain["processor"], usual["wall"] / plain["wall"]
    return f"{plain['processor']:.1f} | {usual['processor']:.1f} | {ratio:.2f} | {clock:.2f}"


if __name__ == "__main__":
    sys.exit(main())
