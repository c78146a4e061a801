"""The models of `driftline bench`, one after the other: measured, judged, and held against hardware profiles.

    python benchmarks/case_studies.py --results studies                       # all, in full size: an hour or more
    python benchmarks/case_studies.py --results studies --models resnet18 --size small
    python benchmarks/case_studies.py --results studies --write-docs          # docs/case-studies.md, without running

Each model is one file of `--results`, written after each step: kill it when you like; started again, it begins with the
model that was not finished.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driftline.bench.result import BenchRow, BenchRun
from driftline.bench.runner import BenchOptions, run_bench
from driftline.bench.suite import FULL, SMALL, SUITE, chosen_models
from driftline.bench.text import filled
from driftline.bench.words import row_words
from driftline.checking.checker import Checker
from driftline.core.target import Target, parse_targets
from driftline.core.text import parse_json, plural, to_json
from driftline.core.wire import decode
from driftline.events import Event, StepDone
from driftline.execute.pool import Pool

ROOT = Path(__file__).resolve().parents[1]
PROFILES = ("matrix32", "npu")
TARGETS = f"eager,inductor,onnxruntime,openvino,mock:profile={PROFILES[0]}:strict=false,mock:profile={PROFILES[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="folder for what was measured, a file per model")
    parser.add_argument("--models", default=",".join(SUITE))
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--size", choices=(FULL, SMALL), default=FULL)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--write-docs", action="store_true")
    given = parser.parse_args()
    if given.write_docs:
        write_docs(given.results)
        return
    given.results.mkdir(parents=True, exist_ok=True)
    options = BenchOptions(size=given.size, repeat=given.repeat, seconds=given.seconds)
    for name in chosen_models(given.models):
        path = given.results / f"{name}.json"
        if not finished(path):
            print(f"{name} ...", file=sys.stderr)
            measure(name, parse_targets(given.targets), options, path)


def finished(path: Path) -> bool:
    return path.exists() and bool(json.loads(path.read_text())["run"]["complete"])


def measure(name: str, targets: list[Target], options: BenchOptions, path: Path) -> None:
    profiles = profiled(name, options.size)

    def listener(event: Event) -> None:
        if isinstance(event, StepDone):
            print(f"  {event.name}: {event.outcome}", file=sys.stderr)

    def keep(run: BenchRun) -> None:
        path.write_text(to_json({"run": run.to_json(), "profiles": profiles}, indent=1) + "\n")

    with Pool() as pool:
        run_bench(Checker(pool), [name], targets, options, listener=listener, keep=keep)


def profiled(name: str, size: str) -> Any:
    """In a process of its own: torch.compile runs in it, and this one imports no compiler."""
    inside = Path(__file__).with_name("_case_study_inside.py")
    done = subprocess.run([sys.executable, str(inside), name, size, *PROFILES], capture_output=True, text=True)
    if done.returncode:
        return {"problem": done.stderr.strip().splitlines()[-1]}
    return parse_json(done.stdout.splitlines()[-1])


# -- the page --------------------------------------------------------------------------------------------------------

HEAD = """# The suite, model by model

Written by `python benchmarks/case_studies.py --results DIR --write-docs` from what the same script measured.
Machine: {machine}; torch {torch}. Each model was compiled on one thread and timed in turn with eager; intervals are
of 99 %, the speed-up goes by processor time, and the row of eager, against itself, is the noise
([how it is measured](how-to/bench.md)). Other processes were at work on the machine: wall times are longer than they
need be. Latencies are of this machine alone; counts of graphs, breaks and violations, and verdicts, are not.
"""


def write_docs(results: Path) -> None:
    studies = {
        name: json.loads((results / f"{name}.json").read_text())
        for name in SUITE
        if (results / f"{name}.json").exists()
    }
    if not studies:
        sys.exit(f"{results} holds no results; measure first.")
    runs = {name: decode(BenchRun, study["run"]) for name, study in studies.items()}
    first = next(iter(runs.values()))
    torch = next(row.version for row in first.rows if row.target == "eager")
    parts = [HEAD.format(machine=first.machine, torch=torch)]
    parts += [section(run, studies[name]["profiles"]) for name, run in runs.items()]
    (ROOT / "docs" / "case-studies.md").write_text("\n".join(parts))


def section(run: BenchRun, profiles: Mapping[str, Any]) -> str:
    model = run.models[0]
    columns, rows = filled(run.rows_of(model.name))
    lines = [f"## {model.name}: {model.words}", ""]
    lines += [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", *said(run.rows_of(model.name), profiles), ""]
    return "\n".join(lines)


def said(rows: list[BenchRow], profiles: Mapping[str, Any]) -> list[str]:
    """What there is to say of a model, as a list."""
    told = []
    compiled = next((row for row in rows if row.target == "inductor"), None)
    if compiled and compiled.graphs is not None:
        breaks = "; ".join(dict.fromkeys(compiled.breaks)) or "no graph break"
        told.append(f"- `torch.compile` makes {plural(compiled.graphs, 'graph')} of it: {breaks}.")
    wrong = [row for row in rows if row.verdict not in ("", "pass")]
    judged = [row for row in rows if row.verdict]
    if judged and not wrong:
        told.append(f"- All {len(judged)} targets pass the oracle.")
    told += [f"- `{row.target}`: {row.verdict}: {row.reason}." for row in wrong]
    told += [f"- `{row.target}` was not timed: {row_words(row)}." for row in rows if row.speedup is None]
    for name, found in profiles.items():
        if name == "problem":
            told.append(f"- The profiles could not be tried: {found}.")
            continue
        kinds = ", ".join(f"{count} of {kind}" for kind, count in found["constraints"].items())
        told.append(
            f"- Under the profile `{name}`: {plural(found['violations'], 'violation')} in {found['places']} places of"
            f" {found['operators']} operators{f' ({kinds})' if kinds else ''}, found in"
            f" {found['seconds']:.0f} s; at its peak {found['peak_bytes'] / 2**20:,.0f} MiB are live."
        )
        for group in found["groups"][:3]:
            fits = f"; {group['fits']} would fit" if group["fits"] else ""
            times = f" ({group['count']} times)" if group["count"] > 1 else ""
            place = f"`{group['place']}`: `{group['code']}`: " if group["place"] else ""
            told.append(f"  - {place}`{group['operator']}`: {group['value']}; allowed: {group['wanted']}{fits}{times}.")
    return told


if __name__ == "__main__":
    main()
