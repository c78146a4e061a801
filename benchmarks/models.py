"""Every model of the corpus on every compiler that takes it: what is said of it, how long it takes, how much memory.

    python benchmarks/models.py --quick
    python benchmarks/models.py --only bert,llama --targets onnxruntime,openvino
    python benchmarks/models.py --group must-hold          # ONNX files of both exporters on four compilers
    python benchmarks/models.py --write-docs               # docs/models.md from what is there, without running

Each answer is one line of `--results`, written when it is known: kill it when you like and start it again, and it goes
on with what is missing. An answer counts for the releases and the corpus that it was made with. What was read by hand
is in `benchmarks/models_read.json`; a failure that is not there makes the exit code 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import _models_docs
from sound_models import available_targets

from driftline.backends import BACKENDS
from driftline.checking.checker import Checker
from driftline.checking.open import LoadedProgram, open_program
from driftline.checking.precision import reviewed
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError, InternalError
from driftline.core.program import Program
from driftline.core.target import Target, parse_targets
from driftline.execute.environments import find_environment
from driftline.execute.pool import Pool
from driftline.models import CATALOGUE, Entry, find, source_text
from driftline.oracle.judge import Reference
from driftline.programs.convert import accepts_directly, find_converter

ROOT = Path(__file__).resolve().parents[1]
READ = ROOT / "benchmarks" / "models_read.json"
QUICK = ("bert", "llama", "mobilenet-v2-qdq", "resnet", "mamba", "graph-net")
FILES = ("dynamo-18", "torchscript-14")  # ONNX by an exporter at an opset
MUST_HOLD = ("bert-base", "gpt2-124m", "llama", "vit-base", "whisper-tiny", "resnet-50", "mobilenet-v2-qdq")
MUST_HOLD_TARGETS = "onnxruntime,openvino,tvm,iree"
SLOW_FIRST = ("tflite", "xla", "executorch", "aotinductor", "tvm", "iree")  # asked last, so that the others come soon


@dataclass(frozen=True)
class Row:
    """What one compiler said of one model in one form."""

    key: str  # what the answer depends on: the same again need not be run again
    model: str
    form: str  # live, or an ONNX file by exporter and opset
    target: str
    version: str
    verdict: str
    kind: str
    reason: str
    seconds: float
    peak_mb: int
    machine: str


def main() -> int:
    arguments = _arguments()
    rows = load(arguments.results)
    if not arguments.write_docs:
        run(arguments, rows)
    read = json.loads(READ.read_text()) if READ.exists() else []
    wanted = {(name, form) for name, form in _pairs(arguments)}
    shown = [row for row in current(rows) if (row.model, row.form) in wanted]
    unread = [row for row in shown if row.verdict.startswith(("fail", "flaky")) and not _models_docs.why(row, read)]
    if arguments.write_docs:
        (ROOT / "docs" / "models.md").write_text(_models_docs.page(shown, read, MUST_HOLD, FILES))
    counts = Counter(row.verdict for row in shown)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()), f"in {len(shown)} answers")
    for row in unread:
        print(f"not read yet: {row.model} [{row.form}] on {row.target}: {row.kind}: {row.reason[:150]}")
    return 1 if unread else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME,...", help="these models")
    parser.add_argument("--family", help="the models of one family")
    parser.add_argument("--targets", metavar="LIST", help="instead of every backend that is installed")
    parser.add_argument("--quick", action="store_true", help=f"a subset: {', '.join(QUICK)}")
    parser.add_argument("--group", choices=["must-hold"], help="the models of the promise, as ONNX files")
    parser.add_argument("--files", action="store_true", help="ONNX files of both exporters in place of live models")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds for one target (default 240)")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds for one model on all targets")
    parser.add_argument("--again", action="store_true", help="run what is there already, too")
    parser.add_argument("--results", type=Path, default=ROOT / "models-results.jsonl", help="where answers are kept")
    parser.add_argument("--write-docs", action="store_true", help="write docs/models.md, run nothing")
    return parser.parse_args()


def _pairs(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The models asked for, each with the forms to be run in."""
    if arguments.write_docs:
        yield from ((name, form) for name in CATALOGUE for form in ("live", *FILES))
        return
    if arguments.only:
        chosen = [find(name).name for name in arguments.only.split(",")]
    elif arguments.group:
        chosen = list(MUST_HOLD)
    elif arguments.quick:
        chosen = list(QUICK)
    else:
        chosen = [name for name, entry in CATALOGUE.items() if arguments.family in (None, entry.family)]
        chosen.sort(key=lambda name: find(name).size == "full")  # the large ones last
    for name in chosen:
        files = (arguments.group or arguments.files) and find(name).form == "torch"
        yield from ((name, form) for form in (FILES if files else ("live",)))


def run(arguments: argparse.Namespace, rows: dict[str, Row]) -> None:
    text = arguments.targets or (MUST_HOLD_TARGETS if arguments.group else None)
    targets, absent = available_targets(text) if text is None else (parse_targets(text), {})
    targets.sort(key=lambda target: SLOW_FIRST.index(target.backend) if target.backend in SLOW_FIRST else -1)
    for name, reason in absent.items():
        print(f"not here: {name}: {reason}", file=sys.stderr)
    with Pool() as pool, tempfile.TemporaryDirectory() as folder, arguments.results.open("a") as kept:
        checker = Checker(pool, jobs=1)
        for name, form in _pairs(arguments):
            entry = find(name)
            keys = {target: _key(entry, form, target) for target in targets}
            missing = [t for t in targets if arguments.again or keys[t] not in rows]
            if not missing:
                continue
            deadline = time.monotonic() + arguments.limit
            options = CheckOptions(timeout=arguments.timeout, grad=entry.grad)
            try:
                opened = _open(entry, form, Path(folder), pool, options)
            except DriftlineError as error:
                for target in missing:
                    row = _row(keys[target], name, form, target, "not exported", "", str(error), 0.0, 0)
                    _keep(row, rows, kept)
                continue
            try:
                for row in _answers(opened, name, form, missing, keys, checker, options, deadline):
                    _keep(row, rows, kept)
            except InternalError as error:  # ours to fix, and no reason to leave the other models out
                print(f"{name} [{form}]: a bug in Driftline: {str(error).splitlines()[0]}", flush=True)


def _open(entry: Entry, form: str, folder: Path, pool: Pool, options: CheckOptions) -> LoadedProgram:
    """The program with the corpus's own inputs: a file has none, so it gets those of the live model."""
    live = open_program(f"model:{entry.name}", pool, options)
    if form == "live":
        return live
    exporter, _, opset = form.partition("-")
    path = folder / f"{entry.name}-{form}.onnx"
    command = [sys.executable, "-m", "driftline", "models", "export", entry.name, "--as", "onnx"]
    command += ["--exporter", exporter, "--opset", opset, "--out", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    if done.returncode:
        raise DriftlineError(done.stderr.strip().splitlines()[-1])
    opened = open_program(str(path), pool, options)
    names = [spec.name for spec in opened.program.inputs]
    return LoadedProgram(opened.program, {name: live.example[name] for name in names})


def _answers(
    opened: LoadedProgram,
    name: str,
    form: str,
    targets: list[Target],
    keys: dict[Target, str],
    checker: Checker,
    options: CheckOptions,
    deadline: float,
) -> Iterator[Row]:
    samples = (Inputs(opened.example, "example"),)
    reference: Reference | None = None
    for target in targets:
        gradients = not options.grad or BACKENDS.get(target.backend).gradients
        if not gradients or not _can_take(opened.program, target):
            continue
        case = Case(opened.program, samples, (target,), options)
        if time.monotonic() > deadline:
            print(f"{name} [{form}]: out of time before {target}", file=sys.stderr)
            return
        reference = reference or checker.reference(case)
        started = time.monotonic()
        outcome = checker.check(case, known_reference=reference, review=partial(reviewed, checker))
        seconds = time.monotonic() - started
        for skip in outcome.skipped:
            yield _row(keys[target], name, form, target, "skipped", "", skip.reason, seconds, 0)
        for result in outcome.results:
            verdict = f"flaky {result.verdict.judgement}" if result.flaky else str(result.verdict.judgement)
            reason = result.internal_error or result.verdict.reason
            if result.blame:
                reason = f"[{result.blame}] {reason}"
            peak = result.execution.peak_memory >> 20
            yield _row(keys[target], name, form, target, verdict, str(result.verdict.kind or ""), reason, seconds, peak)


def _can_take(program: Program, target: Target) -> bool:
    """A program of another framework is no question to ask, nor is one whose converter is not installed: neither a
    pass nor a rejection."""
    forms = BACKENDS.get(target.backend).accepts
    if accepts_directly(program.form, program.framework, forms):
        return True
    converter = find_converter(program.form, program.framework, forms)
    return converter is not None and (
        not converter.environment or find_environment([converter.environment], None) is not None
    )


def _row(
    key: str, name: str, form: str, target: Target, verdict: str, kind: str, reason: str, seconds: float, peak: int
) -> Row:
    version = BACKENDS.get(target.backend).installed().version
    return Row(
        key, name, form, str(target), version, verdict, kind, reason[:600], round(seconds, 1), peak, platform.machine()
    )


def _key(entry: Entry, form: str, target: Target) -> str:
    """Everything an answer depends on, Driftline's own judgement apart: `--again` asks anew."""
    release = BACKENDS.get(target.backend).installed().version
    parts = (source_text(entry.name), form, str(target), release, platform.machine())
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


# -- what is kept ------------------------------------------------------------------------------------------------------


def load(path: Path) -> dict[str, Row]:
    """The answers so far; a line that a kill cut short is none."""
    rows: dict[str, Row] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            row = Row(**json.loads(line))
        except (ValueError, TypeError):
            continue
        rows[row.key] = row
    return rows


def current(rows: dict[str, Row]) -> list[Row]:
    """The newest answer for each model, form and target."""
    newest = {(row.model, row.form, row.target): row for row in rows.values()}
    return list(newest.values())


def _keep(row: Row, rows: dict[str, Row], kept: Any) -> None:
    rows.pop(row.key, None)
    rows[row.key] = row
    kept.write(json.dumps(asdict(row)) + "\n")
    kept.flush()
    os.fsync(kept.fileno())
    where = f"{row.model} [{row.form}]" if row.form != "live" else row.model
    said = "" if row.verdict == "pass" else f"  {row.kind} {row.reason[:160]}"
    print(f"{where:<34} {row.target:<18} {row.verdict:<14} {row.seconds:6.1f} s {row.peak_mb:5} MB{said}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
