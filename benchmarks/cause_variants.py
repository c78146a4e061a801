"""Does a cause explain more than its own witness?

    python benchmarks/cause_variants.py --results variants.jsonl
    python benchmarks/cause_variants.py --only 'openvino/*' --library OTHER/FOLDER

Makes variants of the witness of each cause: other numbers of the same sort, other sizes, another dtype, the same
operator in torch's spelling, and with an unrelated operator beside it (which is reduced away first, as a hunt does).
Each is run on the blamed target. A variant that fails in the way of the cause and that no cause of this compiler
explains says that the cause is too narrow. Exits 1 when there is one.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from _lines import append_line, read_lines

from driftline.campaign.check.annotation import examined
from driftline.campaign.check.session import record
from driftline.campaign.check.witnesses import FAILURES, run_program, why_missing
from driftline.campaign.explain.failing import Failing
from driftline.campaign.explain.reduction import reduce_failing
from driftline.causes import Cause, Library, Sighting, builtin, load, mismatch
from driftline.causes.cause import OF_VALUES
from driftline.causes.sighting import answers_from
from driftline.checking.checker import Checker, TargetResult
from driftline.checking.precision import reviewed
from driftline.core.case import Case
from driftline.core.errors import DriftlineError
from driftline.core.evidence import Evidence
from driftline.core.spelling import spelled_alike
from driftline.core.target import Target
from driftline.execute.pool import Pool

VARIED = Path(__file__).with_name("_varied.py")
FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int8", "int32", "int64", "uint8", "uint32")
LIKE = 0.6  # of two messages: share of their characters
REDUCTION = 20.0  # seconds, of a variant with another operator beside it


@dataclass(frozen=True)
class Variant:
    """One change of a witness. `call` is the function of `_varied.py` with its arguments after the program."""

    sort: str
    call: str


VARIANTS = (
    Variant("itself", "as_is"),
    Variant("numbers", "values seed=1"),
    Variant("numbers", "values seed=2"),
    Variant("sizes", "repeated axis=0"),
    Variant("sizes", "repeated axis=-1"),
    *(Variant("dtype", f"cast dtype={dtype}") for dtype in (*FLOATS, *INTEGERS)),
    Variant("spelling", "in_torch"),
    Variant("beside", "beside"),
)


@dataclass(frozen=True)
class Row:
    """What became of a variant. `sighting` has what causes are held against; only failures have one."""

    cause: str
    sort: str
    variant: str
    verdict: str
    reason: str
    seconds: float
    sighting: dict[str, Any] | None = None


def main() -> int:
    arguments = _arguments()
    library = load([arguments.library]) if arguments.library else builtin()
    chosen = [one for one in library if fnmatch.fnmatch(one.id, arguments.only)]
    kept = {(row.cause, row.variant): row for row in _kept(arguments.results)}
    done = set(kept)
    rows = [row for row in kept.values() if fnmatch.fnmatch(row.cause, arguments.only)]
    if not arguments.judge:
        with Pool() as pool:
            checker = Checker(pool, jobs=1)
            for row in _run_all(checker, library, chosen, done, arguments.sorts):
                rows.append(row)
                print(f"{row.cause:<55} {row.variant:<24} {row.verdict:<12} {row.reason[:90]}", flush=True)
                if arguments.results:
                    append_line(arguments.results, asdict(row))
    narrow = _narrow(rows, library)
    for cause, found in sorted(narrow.items()):
        print(f"too narrow: {cause}")
        for row, why in found:
            print(f"    {row.variant:<24} {why[:150]}\n{'':28} {row.reason[:150]}")
    failing = {row.cause for row in rows if row.sighting}
    print(f"{len(rows)} variants of {len({row.cause for row in rows})} causes,", end=" ")
    print(f"{sum(bool(row.sighting) for row in rows)} of {len(failing)} fail: {len(narrow)} causes are too narrow")
    return 1 if narrow else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="GLOB", default="*", help="causes, as in 'openvino/*'")
    parser.add_argument(
        "--sorts", nargs="+", metavar="SORT", default=["itself", "numbers", "sizes", "dtype", "spelling", "beside"]
    )
    parser.add_argument("--library", type=Path, metavar="DIR", help="causes that take the place of the built-in ones")
    parser.add_argument("--results", type=Path, metavar="FILE", help="rows as JSON lines, to go on from")
    parser.add_argument("--judge", action="store_true", help="run nothing, only hold the results against the causes")
    return parser.parse_args()


def _kept(path: Path | None) -> Iterator[Row]:
    for line in read_lines(path) if path else ():
        yield Row(**line)


def _run_all(
    checker: Checker, library: Library, causes: list[Cause], done: set[tuple[str, str]], sorts: list[str]
) -> Iterator[Row]:
    for cause in causes:
        if cause.fixed or why_missing(cause, Target.parse(cause.witness.target)):
            continue
        for variant in VARIANTS:
            if variant.sort in sorts and (cause.id, variant.call) not in done and (text := varied(cause, variant)):
                yield _run(checker, library, cause, variant, text)


def varied(cause: Cause, variant: Variant) -> str:
    """Returns the text of the witness, changed; empty where the variant cannot be made of it."""
    dtype = variant.call.partition("dtype=")[2]
    if dtype and (dtype in cause.dtypes[:1] or not any(_alike(dtype, one) for one in cause.dtypes)):
        return ""
    if variant.sort == "spelling":
        return _in_torch(cause.witness.program) if "parse_model" in cause.witness.program else ""
    tree = ast.parse(cause.witness.program)
    factory = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "program")
    (made,) = [node for node in ast.walk(factory) if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)]
    assert isinstance(made.value, ast.Tuple)
    name, *arguments = variant.call.split()
    told = "".join(f", {one if '=' in one and not one.startswith('dtype') else _quoted(one)}" for one in arguments)
    program, inputs = (ast.unparse(one) for one in made.value.elts)
    if "parse_model" in cause.witness.program:
        made.value = ast.parse(f"model_{name}({program}, {inputs}{told})", mode="eval").body
    elif variant.sort == "beside":
        return ""
    else:
        made.value = ast.parse(f"({program}, {name}({inputs}{told}))", mode="eval").body
    tree.body.insert(0, ast.parse("from _varied import *").body[0])
    return ast.unparse(tree) + "\n"


_IN_TORCH = """import torch
from witness import program as make


def program():
    _, inputs = make()
    return {function}, tuple(torch.from_numpy(inputs[name].copy()) for name in {names})
"""


def _in_torch(text: str) -> str:
    """Returns a program with torch's function for a witness of one operator without attributes."""
    import torch

    namespace: dict[str, Any] = {}
    exec(compile(text, "witness", "exec"), namespace)
    model, inputs = namespace["program"]()
    nodes = model.graph.node
    if len(nodes) != 1 or nodes[0].attribute or sorted(nodes[0].input) != sorted(inputs):
        return ""
    wanted = spelled_alike([nodes[0].op_type])
    for path, module in (("torch", torch), ("torch.nn.functional", torch.nn.functional)):
        for name in dir(module):
            if name[0].islower() and not name.endswith("_") and spelled_alike([name]) == wanted:
                return _IN_TORCH.format(function=f"{path}.{name}", names=list(nodes[0].input))
    return ""


def _alike(dtype: str, other: str) -> bool:
    return (dtype in FLOATS and other in FLOATS) or (dtype in INTEGERS and other in INTEGERS)


def _quoted(argument: str) -> str:
    name, _, value = argument.partition("=")
    return f"{name}={value!r}"


def _run(checker: Checker, library: Library, cause: Cause, variant: Variant, text: str) -> Row:
    started = time.monotonic()
    row = Row(cause.id, variant.sort, variant.call, "not asked", "", 0.0)
    try:
        target, beside = (
            Target.parse(cause.witness.target),
            {"_varied": VARIED.read_text(), "witness": cause.witness.program},
        )
        case, result = run_program(checker, cause, text, f"variant of {cause.id}", target, **beside)
        row = replace(row, verdict=str(result.verdict.judgement), reason=result.verdict.reason)
        if result.verdict.judgement in FAILURES and not result.flaky:
            seen = examined(checker, case, _reviewed(checker, cause, case, result), library)
            if variant.sort == "beside":
                seen = _reduced(checker, library, cause, case, result) or seen
            row = replace(row, sighting=_told(seen))
    except DriftlineError as error:
        row = replace(row, reason=str(error))
    return replace(row, seconds=round(time.monotonic() - started, 1))


def _reviewed(checker: Checker, cause: Cause, case: Case, result: TargetResult) -> TargetResult:
    """Only causes of less precise arithmetic ask which arithmetic explains a result."""
    return reviewed(checker, case, result, checker.reference(case)) if cause.policies else result


def _reduced(checker: Checker, library: Library, cause: Cause, case: Case, result: TargetResult) -> Sighting | None:
    """What is seen of the smallest part that fails."""
    from driftline.store import Store

    with tempfile.TemporaryDirectory() as folder, Store.create(Path(folder)) as store:
        bug = record(store, case, result, checker.reference(case))
        assert bug
        failing = Failing(bug, bug.findings[0], case)
        smallest = reduce_failing(checker, store, failing, budget=REDUCTION, alone=True).reduction.smallest
        if smallest is None:
            return None
        found = _reviewed(checker, cause, smallest.case, smallest.result)
        return examined(checker, smallest.case, found, library)


def _told(seen: Sighting) -> dict[str, Any]:
    said = {"backend": seen.backend, "kind": seen.kind, "version": seen.version, "stage": seen.stage}
    return {**seen.facts(), **said, "options": dict(seen.options), "evidence": seen.evidence.to_json()}


def _sighting(told: dict[str, Any]) -> Sighting:
    return Sighting(
        backend=told["backend"],
        kind=told["kind"],
        evidence=Evidence.from_json(told["evidence"]),
        version=told["version"],
        machine=told["machine"],
        stage=told["stage"],
        operators=frozenset(told["operators"]),
        dtypes=frozenset(told["dtypes"]),
        options=told["options"],
        answers=answers_from(told["answers"]),
        empty=bool(told.get("empty")),
        later_call=bool(told.get("later_call")),
        settings=frozenset(told.get("settings", ())),
    )


def _narrow(rows: list[Row], library: Library) -> dict[str, list[tuple[Row, str]]]:
    """The causes of whose variants some fail and have no cause, with what did not hold."""
    known = {one.id: one for one in library}
    itself = {row.cause: _sighting(row.sighting) for row in rows if row.sighting and row.sort == "itself"}
    found: dict[str, list[tuple[Row, str]]] = defaultdict(list)
    for row in rows:
        if row.sighting and row.cause in known:
            cause, seen = known[row.cause], _sighting(row.sighting)
            if not _fails_alike(cause, seen, itself.get(row.cause)) or library.explaining(seen):
                continue
            found[row.cause].append((row, mismatch(cause, seen)))
    return found


def _fails_alike(cause: Cause, seen: Sighting, witness: Sighting | None) -> bool:
    """True if a variant fails on the same compiler, in a kind of the cause, with a message like that of the witness. A
    variant that is refused for its sizes, or of which the unrelated operator could not be removed, does not."""
    same_kind = seen.kind in cause.kinds or (seen.kind in OF_VALUES and bool(set(cause.kinds) & set(OF_VALUES)))
    if seen.backend != cause.compiler or not same_kind or (seen.operators & {"relu"} and "relu" not in _named(cause)):
        return False
    if not seen.evidence.message or witness is None:
        return not cause.exception or cause.exception == seen.evidence.exception
    return SequenceMatcher(None, seen.evidence.message, witness.evidence.message).ratio() > LIKE


def _named(cause: Cause) -> set[str]:
    return set().union(*cause.operators)


if __name__ == "__main__":
    sys.exit(main())
