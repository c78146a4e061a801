"""May people trust what Driftline says? One entry point for the three measures of it, and one table.

    python benchmarks/trust.py --store STORE --out FOLDER        all three; hours
    python benchmarks/trust.py --measures interruptions --targets onnxruntime --only starved
    python benchmarks/trust.py --measures controls,scripts --store STORE --only '*ties*'

| measure | what is counted | script |
|---|---|---|
| controls | false alarms on sound programs that others wrote | `trust_controls.py` |
| scripts | scripts of a store's bugs that show the bug, and pass when the compiler is right | `trust_scripts.py` |
| interruptions | hunts that are interrupted, starved or damaged, and print a summary | `trust_interruptions.py` |

`--only` names programs and bugs by a pattern, and hunts by a part of their names. Exits 1 when a measure does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import trust_controls
import trust_interruptions
import trust_scripts
from _tally import Tally

from driftline.core.errors import DriftlineError


def _controls(asked: argparse.Namespace) -> Tally:
    given = [*_given("--only", asked.only), *_given("--targets", asked.targets)]
    given += _given("--out", asked.out and asked.out / "controls.jsonl")
    return trust_controls.tally(trust_controls.arguments(given))


def _scripts(asked: argparse.Namespace) -> Tally:
    if asked.store is None:
        raise DriftlineError("The measure scripts takes a store with bugs; name it with --store.")
    given = [str(asked.store), *_given("--only", asked.only), *_given("--keep", asked.out and asked.out / "scripts")]
    return trust_scripts.tally(trust_scripts.arguments(given))


def _interruptions(asked: argparse.Namespace) -> Tally:
    given = [*_given("--only", asked.only), *_given("--targets", asked.targets)]
    given += _given("--out", asked.out and asked.out / "interruptions.json")
    return trust_interruptions.tally(trust_interruptions.arguments(given))


MEASURES: dict[str, Callable[[argparse.Namespace], Tally]] = {
    "controls": _controls,
    "scripts": _scripts,
    "interruptions": _interruptions,
}


def _given(option: str, value: object) -> list[str]:
    return [option, str(value)] if value else []


def table(tallies: dict[str, Tally]) -> str:
    """The counts of all measures, as Markdown."""
    rows = ["| measure | counted | good | of |", "|---|---|---|---|"]
    rows += [f"| {name} | {found.what} | {found.good} | {found.tried} |" for name, found in tallies.items()]
    return "\n".join(rows)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measures", default=",".join(MEASURES), metavar="LIST", help="of the three")
    parser.add_argument("--store", type=Path, help="the bugs whose scripts are run")
    parser.add_argument("--targets", metavar="LIST", help="instead of each measure's own")
    parser.add_argument("--only", default="", metavar="PATTERN", help="programs, bugs and hunts")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where rows and scripts are written")
    asked = parser.parse_args(given)
    unknown = [name for name in asked.measures.split(",") if name not in MEASURES]
    if unknown:
        parser.error(f"--measures {','.join(unknown)}: give some of {', '.join(MEASURES)}")
    return asked


def main() -> int:
    asked = arguments()
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
    try:
        tallies = {name: MEASURES[name](asked) for name in asked.measures.split(",")}
    except DriftlineError as error:
        print(f"trust.py: {error}", file=sys.stderr)
        return error.exit_code
    for found in tallies.values():
        print(found.told)
    print(f"\n{table(tallies)}")
    return int(not all(found.sound for found in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
