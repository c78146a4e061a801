"""How many of TorchInductor's rewrite rules fire in the whole compiler: for our audit, and for programs made blindly.

    python benchmarks/patterns.py [--quick] [--budget 1800] [--each 120] [--json FILE]

One counter for all: a rule counts when the compiler applied it and the graph was another one afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from driftline.checking.checker import Checker
from driftline.core.rule import Reach, Rule
from driftline.execute.pool import Pool
from driftline.patterns.inductor_audit import InductorAudit, list_rules

ROOT = Path(__file__).resolve().parents[1]
INSIDE = Path(__file__).with_name("_patterns_inside.py")
SOURCES = {"graph": "our graph generator", "optests": "OpInfo samples", "nnsmith": "NNSmith"}


def audited(checker: Checker, rules: Sequence[Rule], budget: float, jobs: int) -> dict[str, Any]:
    """Rules by how far the audit brings them, and why the others do not fire."""
    audit = InductorAudit(checker, rules, jobs=jobs)
    started = time.monotonic()
    for _ in audit.fire(started + budget):
        pass
    progress = list(audit.progress.values())
    fired = {one.rule.id for one in progress if one.reach is Reach.FIRED}
    return {
        **counted(fired, rules),
        "seconds": time.monotonic() - started,
        "steps": {str(step): sum(one.reach.rank >= step.rank for one in progress) for step in list(Reach)[1:]},
        "reasons": dict(Counter(_kind(one.reason) for one in progress if one.reach is not Reach.FIRED).most_common()),
    }


def _kind(reason: str) -> str:
    """Reasons without the names in them."""
    return reason.partition(":")[0] if ":" in reason else reason.partition(" by ")[0] or "not tried"


def counted(fired: set[str], rules: Sequence[Rule]) -> dict[str, Any]:
    mine = [rule for rule in rules if rule.id in fired]
    return {"fired": len(mine), "optimisations": len({rule.optimisation for rule in mine})}


def blindly(source: str, rules: Sequence[Rule], seconds: float, seed: int) -> dict[str, Any]:
    """The rules that programs of a generator fire. A program that kills the process is skipped."""
    python = sys.executable
    if source == "nnsmith":
        import _nnsmith

        try:
            python = str(_nnsmith.install())
        except _nnsmith.NoPeer as reason:
            return {"skipped": str(reason)}
    fired: set[str] = set()
    programs, deaths, ended = 0, 0, time.monotonic() + seconds
    while time.monotonic() < ended and deaths < 20:
        lines = inside(python, source, ended - time.monotonic(), seed + 1000 * deaths)
        programs += len(lines)
        fired.update(rule for line in lines for rule in line["rules"])
        deaths += 1
        if not lines and deaths > 2:
            return {"skipped": "it makes no program here"}
    return {**counted(fired, rules), "seconds": seconds, "programs": programs}


def inside(python: str, what: str, amount: float, seed: int) -> list[dict[str, Any]]:
    """What the part that imports torch says, line by line."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{INSIDE.parent}"}
    if what == "nnsmith":  # what its operators can do was found out once
        variables["XDG_CACHE_HOME"] = str(Path(python).parents[1] / "cache")
    done = subprocess.run(
        [python, str(INSIDE), what, str(amount), str(seed)], env=variables, capture_output=True, text=True, check=False
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def show(result: Mapping[str, Any]) -> None:
    console = Console()
    table = Table("programs from", "rules fired", "optimisations", "seconds", "programs")
    for name, row in result["sources"].items():
        if "skipped" in row:
            table.add_row(name, row["skipped"], "", "", "")
            continue
        shown = (row["fired"], row["optimisations"], round(row["seconds"]), row.get("programs", ""))
        table.add_row(name, *map(str, shown))
    console.print(f"{result['rules']} rules, {result['optimisations']} optimisations of torch {result['version']}")
    console.print(table)
    for title in ("steps", "reasons"):
        console.print(f"{title}: {result['sources']['the audit'][title]}")
    console.print("cost of asking once: " + ", ".join(f"{k} {v * 1000:.0f} ms" for k, v in result["tiers"].items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=1800, help="seconds for the audit")
    parser.add_argument("--each", type=float, default=120, help="seconds for each generator")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rules, and seconds in place of minutes")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    budget, each, sample = (options.budget, options.each, 40) if not options.quick else (60.0, 10.0, 8)
    with Pool() as pool:
        checker = Checker(pool, options.jobs)
        version, rules = list_rules(checker)
        chosen = rules[::10] if options.quick else rules
        sources = {"the audit": audited(checker, chosen, budget, options.jobs)}
    for source, name in SOURCES.items():
        sources[name] = blindly(source, rules, each, options.seed)
    result = {
        "version": version,
        "rules": len(chosen),
        "optimisations": len({rule.optimisation for rule in chosen}),
        "sources": sources,
        "tiers": next((line["tiers"] for line in inside(sys.executable, "tiers", sample, 0)), {}),
    }
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
