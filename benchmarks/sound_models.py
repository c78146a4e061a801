"""Does Driftline cry wolf? Every sound model of `examples/models`, in every dtype, on every compiler that is here.

    python benchmarks/sound_models.py
    python benchmarks/sound_models.py --only 'mlp:*' --targets inductor,onnxruntime --json

A model passes, agrees in less precise arithmetic, or is rejected by a compiler that does not support it. A failure is
a false alarm, or a bug of the compiler: then it was looked into once and is a cause (`driftline causes list`), which
explains the failure, if need be after the model was reduced. Exits 1 when a failure has no cause.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from driftline.backends import BACKENDS
from driftline.campaign.check.annotation import examined
from driftline.campaign.check.session import record
from driftline.campaign.explain.failing import find_failing
from driftline.campaign.explain.reduction import reduce_failing
from driftline.causes import builtin
from driftline.checking.checker import Checker, TargetResult
from driftline.checking.open import open_program
from driftline.checking.precision import reviewed
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.program import Program
from driftline.core.target import Target, parse_targets
from driftline.core.verdict import Judgement
from driftline.diagnose.reduce.reducer import DoesNotFail, NotReducible
from driftline.execute.pool import Pool
from driftline.inputs.make import random_inputs
from driftline.oracle.judge import Reference
from driftline.programs.convert import accepts_directly, find_converter
from driftline.report.annotated import causes_of
from driftline.store import Store

MODELS = Path(__file__).resolve().parents[1] / "examples" / "models"
# Read once, and of a known cause, but lost digits alone are no evidence that a cause may be held to.
READ = (
    ("layernorm:float32", "executorch", ("wrong-value",), "executorch/variance-is-a-difference-of-squares"),
    ("*:*float16", "onnx-reference", ("wrong-value", "bias"), "computes every step in the small type, sums included"),
)
REDUCING = 120.0  # seconds to find the part of a model that a cause explains


@dataclass(frozen=True)
class Row:
    """What one target said of one model."""

    model: str
    target: str
    verdict: str
    deviation: float  # how far the worst element lies from the exact result, in sigmas of legal rounding
    seconds: float
    reason: str
    known: str = ""  # the cause that explains a failure, by its id

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
        case = Case(opened.program, samples, (target,), options)
        outcome = checker.check(case, review=partial(reviewed, checker))
        seconds = time.monotonic() - started
        for skip in outcome.skipped:
            yield Row(name, str(target), "skipped", 0.0, seconds, skip.reason)
        for result in outcome.results:
            verdict = str(result.verdict.judgement)
            if result.verdict.judgement is Judgement.FAIL:
                verdict = f"{verdict} {result.verdict.kind}"
            if result.flaky:
                verdict = f"flaky {verdict}"
            reason = result.internal_error or result.verdict.reason
            if result.blame:
                reason = f"[{result.blame}] {reason}"
            deviation = result.verdict.evidence.z or 0.0
            known = _read(name, str(target), verdict) or find_cause(checker, case, result, outcome.reference)
            yield Row(name, str(target), verdict, deviation, seconds, reason, known)


def _read(name: str, target: str, verdict: str) -> str:
    return next(
        (
            why
            for models, one, kinds, why in READ
            if one == target and fnmatch.fnmatch(name, models) and verdict in {f"fail {kind}" for kind in kinds}
        ),
        "",
    )


def _can_take(program: Program, target: Target) -> bool:
    """A program of another framework is no question to ask: neither a pass nor a rejection."""
    forms = BACKENDS.get(target.backend).accepts
    direct = accepts_directly(program.form, program.framework, forms)
    return direct or find_converter(program.form, program.framework, forms) is not None


def find_cause(checker: Checker, case: Case, result: TargetResult, reference: Reference) -> str:
    """The id of the cause that explains a failure: of the model as it is, or of the smallest part that fails so."""
    if result.verdict.judgement is not Judgement.FAIL or result.internal_error:
        return ""
    seen = examined(checker, case, result, builtin())
    if found := builtin().explaining(seen):
        return found[0].id
    with tempfile.TemporaryDirectory() as folder, Store.create(Path(folder) / "store") as store:
        bug = record(store, case, result, reference)
        assert bug
        try:
            failing = find_failing(bug.id, store, checker, target=result.target)
            reduce_failing(checker, store, failing, budget=REDUCING, alone=True)
        except (DoesNotFail, NotReducible):
            return ""
        return next((cause.id for cause in causes_of(store.bug(bug.id))), "")


def _line(row: Row) -> str:
    text = f"{row.model:<24} {row.target:<18} {row.verdict:<22} {row.deviation:8.2f} {row.seconds:6.1f} s"
    if row.known:
        return f"{text}  cause: {row.known}"
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
