"""How short scripts get: the cases of real_bugs/reduce, each beside the shortest version that a person wrote.

    python benchmarks/script_reduction.py [NAME ...] [--budget 180] [--targets aot_eager] [--out FILE]

Each case is reduced on its own backend (or on --targets), and a line is printed: the lines before, after, and of the
version written by hand (none of them counts blank lines and comments), the ratio, and the seconds. A case that the
judge does not see fail is told with its reason. What --out holds already is not done again.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from _lines import append_line, read_lines

from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.diagnose.reduce.scripts.reducer import reduce_script
from driftline.diagnose.reduce.scripts.size import code_lines
from driftline.execute.pool import Pool
from driftline.scenarios.runs import ScriptOptions
from driftline.scenarios.script import read_script

CASES = Path(__file__).parent / "real_bugs" / "reduce"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases; all without any")
    parser.add_argument("--budget", type=float, default=180.0, help="seconds for a case")
    parser.add_argument("--targets", default="", help="a target in place of the script's own backend")
    parser.add_argument("--out", type=Path, help="a file of lines of JSON, which is gone on with")
    given = parser.parse_args()
    names = given.names or sorted(path.stem for path in CASES.glob("*.py") if not path.stem.endswith(".short"))
    target = Target.parse(given.targets) if given.targets else None
    with tempfile.TemporaryDirectory() as folder, Pool() as pool:
        out = given.out or Path(folder) / "reduced.jsonl"
        done = {told["name"]: told for told in read_lines(out)}
        for name in names:
            if name not in done:
                done[name] = _reduced(name, pool, target, given.budget)
                append_line(out, done[name])
            print(_row(done[name]), flush=True)
        print(_summary([done[name] for name in names]))


def _reduced(name: str, pool: Pool, target: Target | None, seconds: float) -> dict[str, Any]:
    by_hand = code_lines((CASES / f"{name}.short.py").read_text())
    script = read_script(CASES / f"{name}.py")
    told: dict[str, Any] = {"name": name, "before": code_lines(script.text), "by_hand": by_hand}
    try:
        made = reduce_script(script, pool, ScriptOptions(timeout=60.0), target, seconds=seconds)
    except DriftlineError as refused:
        return {**told, "refused": str(refused)}
    print(made.after, file=sys.stderr)
    ratio = made.lines_after / by_hand
    return {**told, "after": made.lines_after, "ratio": ratio, **made.to_json()}


def _row(told: dict[str, Any]) -> str:
    if "refused" in told:
        return f"{told['name']:34} {told['before']:3} lines: {told['refused']}"
    ended = "" if told["complete"] else "  (the budget ended it)"
    return (
        f"{told['name']:34} {told['before']:3} -> {told['after']:2} lines, by hand {told['by_hand']:2},"
        f" {told['ratio']:.2f} of it, {told['seconds']:4.0f} s, {told['questions']} questions{ended}"
    )


def _summary(all_told: list[dict[str, Any]]) -> str:
    made = [told for told in all_told if "refused" not in told]
    if not made:
        return "No case could be reduced."
    medians = {
        name: statistics.median(told[name] for told in made) for name in ("after", "by_hand", "ratio", "seconds")
    }
    return (
        f"{len(made)} of {len(all_told)} reduced; medians: {medians['after']:g} lines, by hand {medians['by_hand']:g},"
        f" {medians['ratio']:.2f} of it, {medians['seconds']:.0f} s; the largest ratio is"
        f" {max(told['ratio'] for told in made):.2f}"
    )


if __name__ == "__main__":
    main()
