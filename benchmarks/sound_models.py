"""Does Driftline cry wolf? Every sound model of `examples/models`, in every dtype, on every compiler that is here.

    python benchmarks/sound_models.py
    python benchmarks/sound_models.py --only 'mlp:*' --targets inductor,onnxruntime --json

A model passes, or is rejected by a compiler that does not support it. A failure is a false alarm, or a bug of the
compiler: then it is looked into once and written down, with its reason, in `examples/models/known.json`. Exits 1 when a
failure is not written down there.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import json
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from driftline.backends import BACKENDS
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.program import Program
from driftline.core.target import Target, parse_targets
from driftline.execute.pool import Pool
from driftline.inputs.make import random_inputs
from driftline.programs.convert import accepts_directly, find_converter

MODELS = Path(__file__).resolve().parents[1] / "examples" / "models"


@dataclass(frozen=True)
class Row:
    """What one target said of one model."""

    model: str
    target: str
    verdict: str
    deviation: float  # how far the worst element lies from the exact result, in sigmas of legal rounding
    seconds: float
    reason: str
    known: str = ""  # the compiler bug that explains a failure

    @property
    def failed(self) -> bool:
        return self.verdict.startswith(("fail", "flaky"))


def main() -> int:
    arguments = _arguments()
    targets, absent = available_targets(arguments.targets)
    rows: list[Row] = []
    with Pool() as pool:
        checker = Checker(pool, jobs=1)
        for name in factories():
            if fnmatch.fnmatch(name, arguments.only):
                for row in run_model(name, targets, arguments.seeds, pool, checker):
                    rows.append(row)
                    print(_line(row), file=sys.stderr if arguments.json else sys.stdout, flush=True)
    alarms = [row for row in rows if row.failed and not row.known]
    counts = Counter("known bug" if row.known else row.verdict.split()[0] for row in rows)
    if arguments.json:
        print(json.dumps({"rows": [asdict(r) for r in rows], "counts": counts, "absent": absent}, indent=1))
    else:
        _summary(rows, absent)
        print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
        print(f"{len(alarms)} false alarms in {len(rows)} checks")
    return 1 if alarms else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="GLOB", default="*", help="models, as in 'mlp:float*'")
    parser.add_argument("--targets", metavar="LIST", help="instead of every backend that is installed")
    parser.add_argument("--seeds", type=int, default=2, help="random inputs besides the example (default 2)")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout, progress on stderr")
    return parser.parse_args()


def factories() -> Iterator[str]:
    """`file:name` of every factory: the public functions without arguments."""
    for path in sorted(MODELS.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not node.args.args:
                yield f"{path.stem}:{node.name}"


def available_targets(text: str | None) -> tuple[list[Target], dict[str, str]]:
    """The targets to run, and why the others cannot."""
    if text:
        return parse_targets(text), {}
    found, absent = [], {}
    for name in BACKENDS:
        try:
            present = BACKENDS.get(name).installed()
        except DriftlineError as error:
            absent[name] = str(error)
            continue
        if present.available:
            found.append(Target.parse(name))
        else:
            absent[name] = present.reason
    return found, absent


def run_model(name: str, targets: list[Target], seeds: int, pool: Pool, checker: Checker) -> Iterator[Row]:
    options = CheckOptions()
    stem, _, factory = name.partition(":")
    opened = open_program(f"{MODELS / stem}.py:{factory}", pool, options)
    randoms = (random_inputs(opened.program.inputs, opened.example, seed) for seed in range(1, seeds + 1))
    samples = (Inputs(opened.example, "example"), *randoms)
    for target in targets:
        if not _can_take(opened.program, target):
            continue
        started = time.monotonic()
        outcome = checker.check(Case(opened.program, samples, (target,), options))
        seconds = time.monotonic() - started
        for skip in outcome.skipped:
            yield Row(name, str(target), "skipped", 0.0, seconds, skip.reason)
        for result in outcome.results:
            verdict = " ".join(filter(None, (result.verdict.judgement, result.verdict.kind)))
            if result.flaky:
                verdict = f"flaky {verdict}"
            reason = result.internal_error or result.verdict.reason
            if result.blame:
                reason = f"[{result.blame}] {reason}"
            deviation = float(result.verdict.evidence.get("z", 0.0))
            known = why_known(name, target, str(result.verdict.kind)) if result.verdict.kind else ""
            yield Row(name, str(target), verdict, deviation, seconds, reason, known)


def _can_take(program: Program, target: Target) -> bool:
    """A program of another framework is no question to ask: neither a pass nor a rejection."""
    forms = BACKENDS.get(target.backend).accepts
    direct = accepts_directly(program.form, program.framework, forms)
    return direct or find_converter(program.form, program.framework, forms) is not None


def why_known(model: str, target: Target, kind: str) -> str:
    """The compiler bug, looked into before, that makes this model fail there in this way."""
    for entry in json.loads((MODELS / "known.json").read_text()):
        here = re.fullmatch(entry.get("machine", ".*"), platform.machine())
        named = str(target) in entry["targets"] and fnmatch.fnmatch(model, entry["models"])
        if here and named and kind == entry["kind"]:
            return str(entry["why"])
    return ""


def _line(row: Row) -> str:
    text = f"{row.model:<24} {row.target:<18} {row.verdict:<22} {row.deviation:8.2f} {row.seconds:6.1f} s"
    if row.known:
        return f"{text}  known: {row.known}"
    return text if row.verdict == "pass" else f"{text}  {row.reason[:200]}"


def _summary(rows: list[Row], absent: dict[str, str]) -> None:
    rejected = sorted({(row.target, row.model, row.reason) for row in rows if row.verdict == "rejected"})
    print("\nrejected:")
    for target, model, reason in rejected:
        print(f"  {target:<18} {model:<24} {reason[:160]}")
    for name, reason in absent.items():
        print(f"not here: {name}: {reason}")


if __name__ == "__main__":
    sys.exit(main())
