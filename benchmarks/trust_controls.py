"""False alarms on control programs: sound programs that somebody wrote who had not read the oracle.

    python benchmarks/trust_controls.py --out rows.jsonl          # all of them; a run that was stopped goes on
    python benchmarks/trust_controls.py --only 'torch/ties*' --targets eager,inductor
    python benchmarks/trust_controls.py --read rows.jsonl         # only compare rows with the reading

The programs in `benchmarks/controls/` follow the documentation of PyTorch and ONNX, and were frozen before the first
run. Every row that failed was judged by hand with an independent computation, and the result stands in
`controls_read.json`: for `PROGRAM TARGET`, "compiler", "debatable" or "false", and the reason. The script prints the
number of rows for each verdict and the failures by judgement. Exits 1 when a failure is false or was not judged yet, or
when a check ended with an internal error.
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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from _lines import append_line, read_lines
from _tally import Tally

import driftline
from driftline.core.errors import DriftlineError, InternalError

CONTROLS = Path(__file__).with_name("controls")
READING = Path(__file__).with_name("controls_read.json")
TORCH_TARGETS = ("eager", "aot_eager", "inductor", "onnxruntime", "openvino", "tvm")
ONNX_TARGETS = ("onnxruntime", "openvino", "tvm")


def main() -> int:
    counted = tally(arguments())
    print(counted.told)
    return int(not counted.sound)


def tally(arguments: argparse.Namespace) -> Tally:
    """Check the programs, print the rows that are not clean, and count all of them."""
    if arguments.read:
        return _summary(read_lines(arguments.read))
    out = arguments.out or Path(tempfile.mkdtemp()) / "rows.jsonl"
    done = {row["program"] for row in read_lines(out)}
    names = [name for name in control_names() if fnmatch.fnmatch(name, arguments.only) and name not in done]
    with tempfile.TemporaryDirectory() as folder, driftline.open(arguments.store or Path(folder) / "store") as bench:
        for place, name in enumerate(names, start=1):
            for row in check_control(bench, name, arguments.targets):
                append_line(out, row)
                if row["verdict"] not in ("pass", "rejected"):
                    print(f"[{place}/{len(names)}] {_line(row)}", flush=True)
    print(f"Rows: {out}")
    return _summary(read_lines(out))


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="GLOB", default="*", help="programs, as in 'torch/ties*:*'")
    parser.add_argument("--targets", type=lambda text: text.split(","), metavar="LIST", help="instead of the six")
    parser.add_argument("--out", type=Path, metavar="FILE", help="rows as JSON lines; programs in the file are skipped")
    parser.add_argument("--store", type=Path, help="keep the failures in this store")
    parser.add_argument("--read", type=Path, metavar="FILE", help="run nothing; compare the rows of a file")
    return parser.parse_args(given)


def control_names() -> Iterator[str]:
    """Yield `folder/file:function` of every control program."""
    for path in sorted(CONTROLS.glob("*/*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and _takes_nothing(node.args):
                yield f"{path.parent.name}/{path.stem}:{node.name}"


def _takes_nothing(arguments: ast.arguments) -> bool:
    return not (arguments.args or arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg)


def check_control(
    bench: driftline.Workbench, name: str, targets: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Check one control program and yield one row for each target, or one row when the check itself ended early."""
    file, _, function = name.partition(":")
    usual = TORCH_TARGETS if file.startswith("torch/") else ONNX_TARGETS
    wanted = [target for target in targets or usual if target in usual]
    started = time.monotonic()
    try:
        result = bench.check(f"{CONTROLS / file}.py:{function}", targets=wanted, timeout=120.0)
    except (DriftlineError, InternalError) as error:
        verdict = "internal error" if isinstance(error, InternalError) else "refused"
        yield {"program": name, "target": "", "verdict": verdict, "reason": str(error)[:500], "kind": "", "bug": ""}
        return
    for row in result.results:
        yield {
            "program": name,
            "target": str(row.target),
            "verdict": "internal error" if row.internal_error else str(row.verdict.judgement),
            "kind": str(row.verdict.kind or ""),
            "reason": (row.internal_error or row.verdict.reason)[:500],
            "blame": row.blame,
            "flaky": row.flaky,
            "bug": bug.id if (bug := result.bugs.get(row.target)) else "",
            "seconds": round(time.monotonic() - started, 1),
        }


def _line(row: Mapping[str, Any]) -> str:
    return f"{row['program']} {row['target']}: {row['verdict']} {row['kind']} {row['reason'][:200]}"


def _summary(rows: Sequence[Mapping[str, Any]]) -> Tally:
    """Count the rows by verdict, and the failures by what the reading says of them; print those that are not ours to
    blame on a compiler."""
    reading: dict[str, list[str]] = json.loads(READING.read_text()) if READING.exists() else {}
    counts = Counter(row["verdict"] for row in rows)
    failures = [row for row in rows if row["verdict"] == "fail"]
    judged = Counter((reading.get(_key(row)) or ["not judged"])[0] for row in failures)
    for row in failures:
        whose, why = (reading.get(_key(row)) or ["not judged", ""])[:2]
        if whose in ("false", "not judged"):
            print(f"{whose}: {_line(row)} {why}")
    told = f"{len({row['program'] for row in rows})} programs, {len(rows)} rows: {_counted(counts)}"
    told += f"\n{len(failures)} failures: {_counted(judged)}"
    bad = judged["false"] + judged["not judged"] + counts["internal error"]
    return Tally("verdicts on control programs without a false alarm", len(rows), len(rows) - bad, told, not bad)


def _key(row: Mapping[str, Any]) -> str:
    return f"{row['program']} {row['target']}"


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none"


if __name__ == "__main__":
    sys.exit(main())
