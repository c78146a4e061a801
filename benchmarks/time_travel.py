"""Would Driftline have found the bugs that were fixed since? Hunts on old releases, replayed on today's.

    python benchmarks/time_travel.py onnxruntime@1.16.3 --with "numpy<2" --minutes 10 --work travel
    python benchmarks/time_travel.py openvino@2024.1.0 xla@0.6.0 --minutes 60 --work travel
    python benchmarks/time_travel.py --work travel --read            # the table of what was replayed so far

Each release is installed into an environment of its own (`driftline env add`) and hunted; then every bug that was found
is replayed there, and on the release that is installed here. One that passes here is replayed once more by itself:
what depends on memory that nobody wrote may pass in a process that ran others. A bug is *fixed since* when it fails
again on the old release and passes on this one both times. The store of each hunt is kept in the folder, and a bug that
was replayed has a line there: stop and start it as you like, and give more minutes to go on with a hunt.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from _lines import append_line, read_lines

import driftline
from driftline.backends import BACKENDS
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.store import Store
from driftline.store.hunts import HuntLog

FAILS, PASSES = "still fails", ("fixed", "passes")


@dataclass(frozen=True)
class Travelled:
    """One bug of an old release, and what becomes of it on both."""

    target: str
    bug: str
    kind: str
    detail: str
    then: str
    now: str
    reason: str  # what is said on today's release
    seen: str = ""  # what was wrong on the old one
    again: str = ""  # what a replay by itself on today's release says; nothing where it was not made

    @property
    def seems_fixed(self) -> bool:
        return self.then == FAILS and self.now in PASSES

    @property
    def fixed(self) -> bool:
        return self.seems_fixed and self.again in PASSES

    @property
    def today(self) -> str:
        return self.again if self.seems_fixed and self.again else self.now


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="BACKEND@RELEASE")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each hunt; 0 only replays")
    parser.add_argument("--work", type=Path, required=True, help="folder for the stores and the results")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--with", dest="beside", action="append", default=[], help="a requirement beside the release")
    parser.add_argument("--read", action="store_true", help="only show what was replayed so far")
    arguments = parser.parse_args()
    results = arguments.work / "time_travel.jsonl"
    if not arguments.read:
        arguments.work.mkdir(parents=True, exist_ok=True)
        for text in arguments.targets:
            travel(Target.parse(text), results, arguments)
    show(read(results))
    return 0


def travel(target: Target, results: Path, arguments: argparse.Namespace) -> None:
    package = BACKENDS.get(target.backend).packages[0]
    beside = [word for one in arguments.beside for word in ("--with", one)]
    asked("env", "add", f"{package}=={target.version}", *beside)
    store = arguments.work / str(target)
    if arguments.minutes:
        hunt = ["hunt", "--targets", str(target), "--seed", str(arguments.seed), "--store", str(store)]
        asked(*hunt, "--budget", f"{arguments.minutes * 60:.0f}s", *(["--resume"] if store.exists() else []))
    with Store.open(store) as opened:
        bugs = [opened.bug(name) for name in HuntLog(opened).sightings()]
    done = {(line.target, line.bug) for line in read(results)}
    left = [bug for bug in bugs if (str(target), bug.id) not in done]
    with driftline.open(store) as bench:  # one set of warm workers for all of them
        for bug in left:
            then, now = (replayed(bench, bug.id, on) for on in (str(target), target.backend))
            about = bug.fingerprint
            found = Travelled(str(target), bug.id, about.kind, about.detail, then[0], *now, seen=then[1])
            append_line(results, asdict(found))
            print(f"{found.bug}: {found.then} then, {found.now} now", flush=True)
    unsure = [line for line in read(results) if line.target == str(target) and line.seems_fixed and not line.again]
    for line in unsure:
        answer = asked("replay", line.bug, "--target", target.backend, "--store", str(store)).get("answer")
        sure = replace(line, again=str(answer or "not known"))
        append_line(results, asdict(sure))
        if not sure.fixed:
            print(f"{sure.bug}: {sure.again} by itself", flush=True)


def replayed(bench: driftline.Workbench, bug: str, target: str) -> tuple[str, str]:
    """What a replay says, and why."""
    try:
        answer = bench.replay(bug, target=target)
    except DriftlineError as error:
        return "", str(error)
    return str(answer.answer), answer.reason


def asked(*words: str) -> dict[str, Any]:
    """What a command answers; nothing where it has no answer."""
    done = subprocess.run(
        [sys.executable, "-m", "driftline", *words, "--json", "--quiet"], capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        print(f"driftline {' '.join(words)}: exit {done.returncode}: {done.stderr.strip()[-300:]}", flush=True)
    return dict(json.loads(done.stdout)) if done.stdout.strip() else {}


def read(results: Path) -> list[Travelled]:
    return list({(line.target, line.bug): line for line in (Travelled(**one) for one in read_lines(results))}.values())


def show(lines: Sequence[Travelled]) -> None:
    """How many were fixed, by release; and which."""
    print("| release | bugs found | fail again there | fixed since | fail today too | differ or are refused today |")
    print("|---|---|---|---|---|---|")
    for target in sorted({line.target for line in lines}):
        mine = [line for line in lines if line.target == target]
        again = [line for line in mine if line.then == FAILS]
        now = Counter("fixed" if line.fixed else line.today for line in again)
        others = len(again) - now["fixed"] - now[FAILS]
        print(f"| `{target}` | {len(mine)} | {len(again)} | {now['fixed']} | {now[FAILS]} | {others} |")
    print("\n| release | fixed since | kind | what the old release does |\n|---|---|---|---|")
    for line in sorted((one for one in lines if one.fixed), key=lambda one: (one.target, one.detail)):
        print(f"| `{line.target}` | {line.detail} | {line.kind} | {shortened(line.seen)} |")


def shortened(reason: str) -> str:
    """One cell of a table."""
    text = re.sub(r"^output\d+: |: legal rounding moves.*|\[ONNXRuntimeError\] : ", "", " ".join(reason.split()))
    return textwrap.shorten(text, 150, placeholder=" ...").replace("|", "/")


if __name__ == "__main__":
    sys.exit(main())
