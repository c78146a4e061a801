"""Hunts that end badly: interrupted, starved of time, given broken plug-ins, a full disk or a spoilt compile cache.

    python benchmarks/trust_interruptions.py                              20 short hunts
    python benchmarks/trust_interruptions.py --only starved --targets onnxruntime

Whatever happens to a hunt, it must not end as a fault of Driftline (exit code 3), and must say what it did: a summary,
or at least one sentence. Exit code 1 if a hunt did not. The full disk is a small tmpfs, for
which it takes root; without, that one is skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from _tally import Tally

SUMMARY = re.compile(r"^\d+ programs? on \d+ compilers? in", re.MULTILINE)
SENTENCE = re.compile(r"^driftline: .+\.", re.MULTILINE)
BUDGET = 25  # seconds of a hunt that is not starved
FILLED = 12.0  # seconds after which the disk is full
PATIENCE = 300  # seconds after which a hunt hangs

_BROKEN = """
from driftline.backends import register_backend
from driftline.backends.onnxruntime import OnnxRuntime

{beginning}


@register_backend
class Broken(OnnxRuntime):
    name = "broken"
    asked = 0

    def compile(self, program, options):
        Broken.asked += 1
        {each}
        return super().compile(program, options)
"""


class _Returns:
    """What a plug-in does to be broken: at its import, and for each program."""

    AT_IMPORT = ("import a_package_that_nobody_has", "pass")
    EVERY_PROGRAM = ("", "raise ImportError('cannot import name lower')")
    EVERY_SECOND = ("", "if Broken.asked % 2: raise ImportError('cannot import name lower')")
    WRONG_TYPES = ("", "return lambda inputs: 'forty-two'")
    EXITS = ("", "raise SystemExit(0)")


@dataclass(frozen=True)
class Ended:
    """How one hunt ended."""

    name: str
    code: int | None  # of the last command; none: it hung
    said: str  # summary, sentence, or nothing
    seconds: float
    last: str = ""  # the last line of what went wrong

    @property
    def good(self) -> bool:
        return self.code not in (3, None) and self.said != "nothing"


@dataclass(frozen=True)
class Place:
    """Where a hunt works, and what it hunts on."""

    folder: Path
    targets: str
    seed: int

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def command(self, *more: str, budget: float = BUDGET, targets: str = "") -> list[str]:
        asked = ["--targets", targets or self.targets, "--seed", str(self.seed), "--budget", f"{budget:g}s"]
        return [*self.resumption()[:4], *asked, "--store", str(self.store), *more]

    def resumption(self) -> list[str]:
        return [sys.executable, "-m", "driftline", "hunt", "--resume", "--store", str(self.store)]


def hunt(name: str, command: list[str], end: int = 0, after: float = 0.0) -> Ended:
    """Run a hunt, and send it a signal after so many seconds."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    out = err = ""
    try:
        if end:
            try:
                out, err = process.communicate(timeout=after)
            except subprocess.TimeoutExpired:
                process.send_signal(end)
        if not out and not err:
            out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Ended(name, None, "nothing", time.monotonic() - began, "it hangs")
    said = "summary" if SUMMARY.search(out) else "sentence" if SENTENCE.search(err) else "nothing"
    lines = [line for line in err.splitlines() if line.strip()]
    return Ended(name, process.returncode, said, time.monotonic() - began, lines[-1][:160] if lines else "")


def interrupted(place: Place, name: str, sent: int, after: float) -> Ended:
    return hunt(name, place.command(), sent, after)


def killed(place: Place, name: str, after: float) -> Ended:
    """Killed, and then resumed: that must come to an end. Killed before it began, it has nothing to resume."""
    hunt(name, place.command(), signal.SIGKILL, after)
    return hunt(name, place.resumption())


def starved(place: Place, name: str, budget: float) -> Ended:
    return hunt(name, place.command(budget=budget))


def broken(place: Place, name: str, beginning: str, each: str) -> Ended:
    plugin = place.folder / "broken.py"
    plugin.write_text(_BROKEN.format(beginning=beginning, each=each))
    return hunt(name, place.command("--plugin", str(plugin), targets="broken"))


def fill(path: Path) -> None:
    """Leave no room on a disk."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))


def full(place: Place, name: str) -> Ended | None:
    """The disk of the store is full soon; `None` where no small disk can be made."""
    disk = place.folder / "store"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        return None
    filling = threading.Timer(FILLED, fill, [disk / "filler"])
    filling.start()
    try:
        return hunt(name, place.command())
    finally:
        filling.cancel()
        subprocess.run(["umount", str(disk)], check=False)


@contextlib.contextmanager
def own_cache(folder: Path) -> Iterator[Path]:
    before = os.environ.get("DRIFTLINE_CACHE")
    os.environ["DRIFTLINE_CACHE"] = str(folder)
    try:
        yield folder
    finally:
        os.environ.pop("DRIFTLINE_CACHE")
        if before is not None:
            os.environ["DRIFTLINE_CACHE"] = before


def poisoned(place: Place, name: str, damage: Callable[[Path], bytes]) -> Ended:
    """What Inductor compiled is damaged before the same hunt runs again in another store."""
    with own_cache(place.folder / "cache") as cache:
        first = Place(place.folder / "first", "inductor", place.seed)
        first.folder.mkdir()
        hunt(name, first.command(budget=4 * BUDGET))
        files = [path for end in ("*.so", "*.py") for path in (cache / "compilers").rglob(end) if path.is_file()]
        for path in files:
            path.chmod(0o600)
            path.write_bytes(damage(path))
        ended = hunt(name, place.command(targets="inductor", budget=2 * BUDGET))
    return Ended(f"{name} ({len(files)} files)", ended.code, ended.said, ended.seconds, ended.last)


def scenarios() -> dict[str, Callable[[Place, str], Ended | None]]:
    """Each by its name."""
    found: dict[str, Callable[[Place, str], Ended | None]] = {}
    for sent, word in ((signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")):
        for after in (1.0, 6.0, 18.0):
            found[f"{word} after {after:g} s"] = lambda p, n, s=sent, a=after: interrupted(p, n, s, a)  # type: ignore[misc]
    for after in (6.0, 15.0):
        found[f"killed after {after:g} s, resumed"] = lambda p, n, a=after: killed(p, n, a)  # type: ignore[misc]
    for budget in (1.0, 2.0, 5.0, 10.0):
        found[f"starved: {budget:g} s"] = lambda p, n, b=budget: starved(p, n, b)  # type: ignore[misc]
    for word, faults in (
        ("ImportError at its import", _Returns.AT_IMPORT),
        ("ImportError at every program", _Returns.EVERY_PROGRAM),
        ("ImportError at every second program", _Returns.EVERY_SECOND),
        ("wrong types returned", _Returns.WRONG_TYPES),
        ("sys.exit", _Returns.EXITS),
    ):
        found[f"plug-in: {word}"] = lambda p, n, f=faults: broken(p, n, *f)  # type: ignore[misc]
    found["full disk"] = full
    found["cache of 0-byte files"] = lambda p, n: poisoned(p, n, lambda path: b"")
    found["cache of random bytes"] = lambda p, n: poisoned(p, n, lambda path: random.Random(path.name).randbytes(900))
    return found


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="onnxruntime,aot_eager")
    parser.add_argument("--only", default="", help="of the hunts, those with this in their names")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="also write what came of each hunt here, as JSON")
    return parser.parse_args(given)


def main() -> int:
    counted = tally(arguments())
    print(counted.told)
    return int(not counted.sound)


def tally(asked: argparse.Namespace) -> Tally:
    """Run the hunts, print how each ended, and count those that printed a summary."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell, hunts would ignore it
    found: list[Ended] = []
    skipped = []
    for number, (name, run) in enumerate(scenarios().items()):
        if asked.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            ended = run(Place(Path(folder), asked.targets, asked.seed + number), name)
        if ended is None:
            skipped.append(name)
            print(f"{name:45} skipped: it takes root", flush=True)
            continue
        found.append(ended)
        mark = "" if ended.good else f"  !! {ended.last}"
        print(f"{ended.name:45} exit {ended.code!s:5} {ended.said:9} {ended.seconds:6.1f} s{mark}", flush=True)
    faults = sum(ended.code in (3, None) for ended in found)
    said = sum(ended.said != "nothing" for ended in found)
    summed = sum(ended.said == "summary" for ended in found)
    told = f"{len(found)} hunts ({len(skipped)} skipped): exit code 3 or hung in {faults}, a summary in {summed},"
    told += f"\na summary or a sentence that says why there is none in {said}."
    if asked.out:
        asked.out.write_text(json.dumps([asdict(ended) for ended in found], indent=1))
    sound = all(ended.good for ended in found)
    return Tally("hunts that end badly and print a summary", len(found), summed, told, sound)


if __name__ == "__main__":
    sys.exit(main())
