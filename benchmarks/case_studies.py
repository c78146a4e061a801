"""The models of `driftline bench`, one after the other: measured, judged, and held against hardware profiles.

    python benchmarks/case_studies.py --results studies                       # all, in full size: an hour or more
    python benchmarks/case_studies.py --results studies --models resnet18 --size small
    python benchmarks/case_studies.py --results studies --verdicts            # the oracle alone, where none is known
    python benchmarks/case_studies.py --results studies --write-docs          # docs/case-studies.md, without running

Each model is one file of `--results`, written after each step: kill it when you like; started again, it goes on with
the next step. Those behind the page are in `benchmarks/case_studies`, with the verdicts of other machines and GPUs.
Targets that compute like a device (`mock:profile=npu`) may be named, too: a call of them takes minutes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from driftline.bench.options import BenchOptions
from driftline.bench.result import BenchRow, BenchRun
from driftline.bench.runner import FASTER, SLOWER, machine_words, run_bench
from driftline.bench.suite import FULL, SMALL, SUITE, chosen_models
from driftline.bench.text import filled
from driftline.bench.words import row_words
from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.core.case import Case, Inputs
from driftline.core.target import Target, parse_targets
from driftline.core.text import parse_json, plural, to_json
from driftline.core.wire import decode
from driftline.events import Event, StepDone
from driftline.execute.pool import Pool

ROOT = Path(__file__).resolve().parents[1]
PROFILES = ("matrix32", "npu")
TARGETS = f"eager,inductor,onnxruntime,openvino,mock:profile={PROFILES[0]}:strict=false"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="folder for what was measured, a file per model")
    parser.add_argument("--models", default=",".join(SUITE))
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--size", choices=(FULL, SMALL), default=FULL)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--verdicts", action="store_true", help="ask the oracle about what was timed before")
    parser.add_argument("--write-docs", action="store_true")
    given = parser.parse_args()
    if given.write_docs:
        write_docs(given.results)
        return
    given.results.mkdir(parents=True, exist_ok=True)
    options = BenchOptions(size=given.size, repeat=given.repeat, seconds=given.seconds)
    for name in chosen_models(given.models):
        path = given.results / f"{name}.json"
        if given.verdicts:
            judge(name, parse_targets(given.targets), options, path)
        elif not finished(path):
            print(f"{name} ...", file=sys.stderr)
            measure(name, parse_targets(given.targets), options, path)


def finished(path: Path) -> bool:
    return path.exists() and bool(json.loads(path.read_text())["run"]["complete"])


def measure(name: str, targets: list[Target], options: BenchOptions, path: Path) -> None:
    before = json.loads(path.read_text()) if path.exists() else None
    known = decode(BenchRun, before["run"]).rows if before else ()
    profiles = before["profiles"] if before else profiled(name, options.size)

    def listener(event: Event) -> None:
        if isinstance(event, StepDone):
            print(f"  {event.name}: {event.outcome}", file=sys.stderr)

    def keep(run: BenchRun) -> None:
        path.write_text(to_json({"run": run.to_json(), "profiles": profiles}, indent=1) + "\n")

    with Pool() as pool:
        run_bench(Checker(pool), [name], targets, options, listener=listener, keep=keep, known=known)


def judge(name: str, targets: list[Target], options: BenchOptions, path: Path) -> None:
    """Verdicts in a run of their own, perhaps on another machine than the timings: kept beside them with the machine,
    never in their rows. Written after each target; what was judged before, on whatever machine, is not judged again."""
    study = json.loads(path.read_text())
    runs = study.setdefault("verdicts", [])
    known = {target for run in runs for target in run["rows"]}
    if not (left := [target for target in targets if str(target) not in known]):
        return
    sized, checks = SUITE[name][options.size], options.of_checks()
    where = {"machine": f"{machine_words()}{gpu_words()}", "judged_on": sized.judged_on}
    kept = next((run for run in runs if where.items() <= run.items()), None)
    if kept is None:
        kept = {**where, "rows": {}}
        runs.append(kept)
    with Pool() as pool:
        opened = open_source(sized.judged().bundle(options.dtype), pool, checks, name=sized.corpus)
        case = Case(opened.program, (Inputs(opened.example, "example"),), tuple(left), checks)
        checker = Checker(pool)
        reference = checker.reference(case)
        for target in left:
            for result in checker.check(case.only(target), known_reference=reference).results:
                verdict, version = result.verdict, result.execution.version
                kept["rows"][str(target)] = [str(verdict.judgement), verdict.reason, version]
                print(f"  {name} on {target}: {verdict.judgement}: {verdict.reason}", file=sys.stderr)
                path.write_text(to_json(study, indent=1) + "\n")


def gpu_words() -> str:
    """The graphics processors, as their driver calls them: `, NVIDIA H200`."""
    told = (line for path in Path("/proc/driver/nvidia/gpus").glob("*/information") for line in path.open())
    return "".join(f", {line.partition(':')[2].strip()}" for line in told if line.startswith("Model:"))


def profiled(name: str, size: str) -> Any:
    """In a process of its own: torch.compile runs in it, and this one imports no compiler."""
    inside = Path(__file__).with_name("_case_study_inside.py")
    done = subprocess.run([sys.executable, str(inside), name, size, *PROFILES], capture_output=True, text=True)
    if done.returncode:
        return {"problem": done.stderr.strip().splitlines()[-1]}
    return parse_json(done.stdout.splitlines()[-1])


# -- the page --------------------------------------------------------------------------------------------------------

HEAD = """# The suite, model by model

Written by `python benchmarks/case_studies.py --results DIR --write-docs` from what the same script measured. Each model
was compiled on one thread and timed in turn with eager; intervals are of 99 %, the speed-up goes by processor time, and
the row of eager, against itself, is the noise ([how it is measured](how-to/bench.md)). Other processes were at work on
the machines: wall times are longer than they need be, and intervals wide. Latencies are of one machine alone; counts of
graphs, breaks and violations, and verdicts, are not.

The oracle judges: it compares each output with float64. Verdicts that are not from the run that was timed, as all on
`inductor:device=cuda`, which is in no table, stand with their machine. [KernelDiff](how-to/inductor-lab.md) held the
models on the GPU against eager in full size ([its figures](measured.md)).

[Hardware profiles](how-to/hardware-profiles.md): `matrix32` is a matrix engine that works on tiles of 32 by 32, `npu` a
device of int8 and bfloat16 with 8 MiB for a tensor. A violation is one tensor of one node; those that are fixed
together are one place. Where a release of torch stands beside a profile, the violations were counted with it, in a run
of its own.
"""


def write_docs(results: Path) -> None:
    studies = {
        name: json.loads((results / f"{name}.json").read_text())
        for name in SUITE
        if (results / f"{name}.json").exists()
    }
    if not studies:
        sys.exit(f"{results} holds no results; measure first.")
    parts = [HEAD]
    for study in studies.values():
        parts.append(section(decode(BenchRun, study["run"]), study["profiles"], study.get("verdicts", [])))
    (ROOT / "docs" / "case-studies.md").write_text("\n".join(parts))


def section(run: BenchRun, profiles: Mapping[str, Any], verdicts: Sequence[Any]) -> str:
    model = run.models[0]
    rows = run.rows_of(model.name)
    columns, cells = filled(rows)
    versions = listed([f"{row.target} {row.version}" for row in rows if row.version and ":" not in row.target])
    lines = [f"## {model.name}: {model.words}", "", f"Machine: {run.machine}; {versions}.", ""]
    told = [graphs_told(rows), verdicts_told(rows, verdicts), speed_told(run, rows)]
    lines += [line for paragraph in told if paragraph for line in (paragraph, "")]
    lines += [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(row)} |" for row in cells]
    for name, found in profiles.items():
        lines += ["", *profile_told(name, found)]
    return "\n".join([*lines, ""])


def graphs_told(rows: list[BenchRow]) -> str:
    """How torch.compile captures it: any row that went through it knows."""
    captured = next((row for row in rows if row.graphs is not None), None)
    if captured is None:
        return ""
    breaks = "; ".join(dict.fromkeys(captured.breaks))
    where = f", with {plural(len(captured.breaks), 'graph break')}: {breaks}." if breaks else ", without a graph break."
    return f"`torch.compile` captures it as {plural(captured.graphs or 0, 'graph')}{where}"


def verdicts_told(rows: list[BenchRow], runs: Sequence[Any]) -> str:
    """What the oracle says of each target's numbers: in the run that was timed, or in runs of its own."""
    judged = {row.target: (row.verdict, row.reason) for row in rows if row.verdict}
    apart = [{**run, "rows": {name: one for name, one in run["rows"].items() if name not in judged}} for run in runs]
    judged |= {target: (verdict, reason) for run in apart for target, (verdict, reason, _) in run["rows"].items()}
    right = [f"`{target}`" for target, (verdict, _) in judged.items() if verdict == "pass"]
    told = (
        [f"The oracle passes {listed(right)}: no output is further from float64 than legal rounding."] if right else []
    )
    for target, (verdict, reason) in judged.items():
        if verdict == "pass":
            continue
        by_design = target.startswith("mock:") and "npu" in target
        why = (
            "computes as that device would, with partial sums in bfloat16, and the oracle says what that does to a"
            f" float32 model: {verdict}"
        )
        told.append(f"`{target}` {why if by_design else f'is judged {verdict}'} ({reason}).")
    told += [apart_told(run) for run in apart if run["rows"]]
    unasked = [f"`{row.target}`" for row in rows if row.target not in judged]
    told += [f"The run was ended before {listed(unasked)} could be judged."] if unasked else []
    return " ".join(told)


def apart_told(run: Mapping[str, Any]) -> str:
    versions = listed([f"{name} {found[2]}" for name, found in run["rows"].items() if found[2] and ":" not in name])
    where = f" on {run['judged_on']}, with the same weights" if run["judged_on"] else ""
    names = listed([f"`{target}`" for target in run["rows"]])
    verdicts, their = ("verdicts", "their") if len(run["rows"]) > 1 else ("verdict", "its")
    are = "are" if len(run["rows"]) > 1 else "is"
    released = f"; {versions}" if versions else ""
    return f"The {verdicts} on {names} {are} from a run of {their} own{where} ({run['machine']}{released})."


def speed_told(run: BenchRun, rows: list[BenchRow]) -> str:
    """Which targets are faster or slower beyond the noise, and which were not timed."""
    ratios = [(row, row.speedup) for row in rows if row.speedup is not None and not row.target.startswith("eager")]
    told = [
        f"`{row.target}` is {row.conclusion} than eager ({ratio.value:.2f}x)"
        for row, ratio in ratios
        if row.conclusion in (FASTER, SLOWER)
    ]
    alike = [f"`{row.target}`" for row, _ in ratios if row.conclusion not in (FASTER, SLOWER)]
    told += [f"{listed(alike)} cannot be told apart from eager"] if alike else []
    noise = run.noise_of(rows[0])
    lines = (
        [f"Beyond the noise of this run (a factor of {noise:.2f} from eager to eager), {listed(told)}."] if told else []
    )
    lines += [f"`{row.target}` was not timed: {row_words(row)}." for row in rows if row.speedup is None]
    return " ".join(lines)


def profile_told(name: str, found: Any) -> list[str]:
    """A paragraph about one hardware profile, and what to change first."""
    if name == "problem":
        return [f"The profiles could not be tried: {found}."]
    if not found["violations"]:
        return [f"It fits the profile `{name}` as it is."]
    kinds = listed([f"{count} of {kind}" for kind, count in found["constraints"].items()])
    counted = f" (torch {found['torch']})" if found.get("torch") else ""
    lines = [
        f"Held against the profile `{name}`{counted}, its {found['operators']} operators have"
        f" {plural(found['violations'], 'violation')} ({kinds}) in {plural(found['places'], 'place')}; at the peak"
        f" {found['peak_bytes'] / 2**20:,.0f} MiB are live. The most frequent:",
        "",
    ]
    for group in found["groups"][:3]:
        fits = f"; {group['fits']} would fit" if group["fits"] else ""
        times = f" ({group['count']} times)" if group["count"] > 1 else ""
        place = f"`{group['place']}`, `{group['code']}`: " if group["place"] else ""
        lines.append(f"- {place}`{group['operator']}`: {group['value']}; allowed: {group['wanted']}{fits}{times}.")
    return lines


def listed(words: list[str]) -> str:
    """`a, b and c`."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


if __name__ == "__main__":
    main()
