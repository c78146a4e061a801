"""Driftline killed without warning (SIGKILL), again and again: nothing stored is lost, no process is left behind.

    python benchmarks/kills.py --work FOLDER                       1,000 kills of hunt, audit, reduce and diagnose
    python benchmarks/kills.py --work FOLDER --count 40 --only hunt --seed 7
    python benchmarks/kills.py --work FOLDER --only writer         a process that only stores: a kill takes 0.1 s
    python benchmarks/kills.py --work FOLDER --table               what came of the trials so far

A trial starts a command (or goes on with the one that was killed before), waits until it has stored something, or is
writing, or for a random time, and kills it: the command alone, or one of its nurseries or workers a moment before. Then
everything that another process could read before the kill must be there and readable, no process may live longer than a
second, the store must take a write at once, and the next start must remove what the killed one left. Before that,
workers and nurseries are killed alone, and the command must go on. Results are appended to FOLDER/trials.jsonl, so that
a run can be stopped and continued. Exit code 1 if a trial went wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _lines import append_line, read_lines

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from _kills_store import Rows, committed, has_unfinished, lost, progress, unreadable, write_without_end  # noqa: E402

PLUGIN = ROOT / "tests" / "diagnose" / "reduce_backends.py"
PATIENCE = 400.0  # seconds in which a command must store something, on a busy machine
ORPHANS = 1.0  # seconds after which no process may be left
COLD = 0.2  # of the commands are started as a user does
A_STORE = 30  # kills after which a new store is begun
WRITER = "writer"  # no command: it stores one thing after another, so that a kill takes a moment
KINDS = ("Sin", "Erf", "Softplus", "Cos", "Tanh")


@dataclass(frozen=True)
class Subject:
    """A command that is killed."""

    name: str
    start: Callable[[Path, int], list[str]]  # for a store and a seed
    resume: Callable[[Path, int], list[str]]
    longest: float = 6.0  # seconds of a random time


def _explain(command: str) -> Callable[[Path, int], list[str]]:
    def line(store: Path, seed: int) -> list[str]:
        model = store.with_name(f"{command}-{seed}.onnx")
        if not model.exists():
            _write_model(model, seed)
        target = ["--target", "odd-far-apart", "--inputs", "random", "--plugin", str(PLUGIN)]
        return [command, str(model), *target, "--store", str(store)]

    return line


def _write_model(path: Path, seed: int) -> None:
    """Two operators matter; between them lies much that does not, so that many questions are asked."""
    import onnx

    rng = random.Random(seed)
    between = "\n".join(f"v{at + 1} = {rng.choice(KINDS)}(v{at})" for at in range(40))
    onnx.save(
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 18]>\n'
            f"long (float[8] x) => (float[8] y) {{\nv0 = Erf(x)\n{between}\ny = Softplus(v40)\n}}"
        ),
        str(path),
    )


def _hunt(store: Path, seed: int) -> list[str]:
    more = ["--generators", "graph", "--programs", "1500", "--jobs", "1", "--seed", str(seed)]
    return ["hunt", "--targets", "onnxruntime", *more, "--store", str(store)]


def _audit(store: Path, seed: int) -> list[str]:
    more = ["--compilers", "onnxscript", "--budget", "1h", "--jobs", "1", "--seed", str(seed)]
    return ["patterns", "audit", *more, "--store", str(store)]


def _write(store: Path, seed: int) -> list[str]:
    return [WRITER, str(store), str(seed)]


SUBJECTS = (
    Subject("hunt", _hunt, lambda store, seed: ["hunt", "--resume", "--jobs", "1", "--store", str(store)]),
    Subject(
        "audit", _audit, lambda store, seed: ["patterns", "audit", "--resume", "--jobs", "1", "--store", str(store)]
    ),
    Subject("reduce", _explain("reduce"), _explain("reduce")),
    Subject("diagnose", _explain("diagnose"), _explain("diagnose")),
    Subject(WRITER, _write, _write, 0.3),
)


class Cold:
    """A command as a user starts it."""

    def __init__(self, line: list[str], log: Path, cache: Path) -> None:
        with open(log, "wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "driftline", *line],
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "DRIFTLINE_CACHE": str(cache), "COLUMNS": "200"},
            )
        self.pid = self._process.pid
        self.poll, self.wait = self._process.poll, self._process.wait


class Forked:
    """The same in a fork of this process, which has Driftline's modules: a second of work less. Workers are started as
    ever."""

    def __init__(self, line: list[str], log: Path, cache: Path) -> None:
        import driftline.patterns.audit
        import driftline.workbench  # noqa: F401
        from driftline.cli import run

        self._code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            code = 99
            try:
                os.setsid()
                file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(file, 1)
                os.dup2(file, 2)
                os.environ |= {"DRIFTLINE_CACHE": str(cache), "COLUMNS": "200"}
                code = run(line) if line[0] != WRITER else write_without_end(Path(line[1]), int(line[2])) or 0
            finally:
                os._exit(code)

    def poll(self) -> int | None:
        return self._reaped(os.WNOHANG)

    def wait(self) -> int | None:
        return self._reaped(0)

    def _reaped(self, how: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, how)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


class Trial:
    """One kill of one command."""

    def __init__(self, subject: Subject, line: list[str], store: Path, cache: Path, rng: random.Random) -> None:
        self._store, self._cache = store, cache
        self.moment = rng.choice(("stored", "stored", "writing", "random", "random"))
        self.victims = rng.choice(("command", "command", "command", "nursery too", "worker too"))
        self._wait = rng.uniform(0.0, subject.longest) if self.moment == "random" else PATIENCE
        self._writes = rng.randint(1, 12)
        self._alone = (
            rng.choices(("worker", "worker", "nursery"), k=rng.randint(0, 2)) if self._wait == PATIENCE else []
        )
        self._steps = rng.choice((1, 1, 2, 3))
        self.problems: list[str] = []
        self.first = 0.0
        self._log = store.with_name(f"{subject.name}.log")
        self.before = committed(store)
        self._began = time.monotonic()
        if subject.name == WRITER:
            self.victims, self._alone = "command", []
        self.cold = subject.name != WRITER and rng.random() < COLD
        self._process = Cold(line, self._log, cache) if self.cold else Forked(line, self._log, cache)

    def run(self) -> dict[str, Any]:
        alone = [role for role in self._alone if self._outlives(role)]
        seen = self._watch()
        lived = time.monotonic() - self._began
        ended = self._process.poll()
        family = _family(self._process.pid)
        if ended is None:
            self._kill(family)
        elif ended not in (0, 1):
            self._problem(f"the command ended by itself with {ended}")
        self._process.wait()
        orphans = self._orphans(family)
        after = committed(self._store)
        self.problems += lost(seen, after)
        self.problems += unreadable(self._store)
        gained = progress(after) - progress(self.before)
        if ended is None and self.moment != "random" and progress(seen) == self._held:
            self._problem(f"nothing more was stored in {lived:.0f} s")
        return {"moment": self.moment, "victims": self.victims, "alone": alone, "ended": ended, "cold": self.cold,
                "lived": round(lived, 2), "gained": gained, "rows": progress(after), "first": self.first,
                "orphans": round(orphans, 3), "problems": self.problems}  # fmt: skip

    def _problem(self, words: str) -> None:
        self.problems.append(f"{words}: {self._log.read_text(errors='replace')[-600:]}")

    def _outlives(self, role: str) -> bool:
        """Kill a process of the command as soon as something was stored; it must go on, and store more: the next watch
        tells."""
        had, began = committed(self._store), time.monotonic()
        while self._process.poll() is None and time.monotonic() - began < self._wait:
            time.sleep(0.03)
            seen = committed(self._store)
            if progress(seen) > progress(had):
                self.first = self.first or round(time.monotonic() - self._began, 2)
                for pid in [pid for pid, what in _family(self._process.pid).items() if what == role][:1]:
                    with contextlib.suppress(ProcessLookupError):  # it ended by itself: another one is waited for
                        os.kill(pid, signal.SIGKILL)
                        self.problems += lost(had, seen)
                        return True
        return False

    def _watch(self) -> Rows:
        """Until the moment has come; what was committed then, as another process sees it."""
        seen, began = committed(self._store), time.monotonic()
        begun, writes = progress(seen), 0
        self._held = begun
        wal = self._store / "store.db-wal"
        size = None
        while self._process.poll() is None and time.monotonic() - began < self._wait:
            try:
                state = wal.stat()
                now = (state.st_size, state.st_mtime_ns)
            except OSError:
                now = (0, 0)
            if now == size:
                time.sleep(0.002)
                continue
            size, writes = now, writes + 1
            if self.moment == "writing" and begun < progress(seen) and writes >= self._writes:
                break  # as it writes: what was seen before must be there
            seen = committed(self._store)
            if not self.first and progress(seen) > begun:
                self.first = round(time.monotonic() - self._began, 2)
            if self.moment == "stored" and progress(seen) >= begun + self._steps:
                break
        return seen

    def _kill(self, family: Mapping[int, str]) -> None:
        role = self.victims.removesuffix(" too")
        others = [pid for pid, what in family.items() if what == role]
        for pid in (*others[:1], self._process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                self.victims = "command"  # it was gone by itself

    def _orphans(self, family: Mapping[int, str]) -> float:
        """When something of ours was last seen alive, in seconds after the kill. A look through all processes takes a
        while on a busy machine: what counts is when it began."""
        killed = last = time.monotonic()
        mark = str(self._cache).encode()
        while True:
            began = time.monotonic()
            living = _living(mark, family)
            if not living or began - killed > 10:
                break
            last = began
            time.sleep(0.01)
        if last - killed > ORPHANS:
            self.problems.append(f"processes lived on for {last - killed:.1f} s: {living[:3]}")
        for pid, _ in living:
            os.kill(pid, signal.SIGKILL)
        return last - killed


def _family(pid: int) -> dict[int, str]:
    """Everything below a command, and what it is."""
    import psutil

    found: dict[int, str] = {}
    try:
        top = psutil.Process(pid)
        for child in top.children():
            nursery = "driftline.execute.worker" in " ".join(child.cmdline())
            found[child.pid] = "nursery" if nursery else "keeper"
            found |= {below.pid: "worker" for below in child.children(recursive=True)}
    except psutil.Error:
        pass
    return found


def _living(mark: bytes, family: Mapping[int, str]) -> list[tuple[int, str]]:
    """Processes that know our cache folder, by their variables or their command; zombies have neither."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = Path(entry.path, "cmdline").read_bytes()
            told = b"DRIFTLINE_CACHE=" + mark in Path(entry.path, "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if told or (command and mark in command):
            what = family.get(int(entry.name), "unknown")
            found.append((int(entry.name), f"{what} {command[:80]!r}"))
    return found


def left_behind(store: Path, cache: Path, working: float) -> list[str]:
    """What must be gone: parts of objects, once the store was opened again; and scratch folders, but for that of the
    run that was killed last, if it came to work."""
    parts = [str(part) for part in store.glob("objects/**/.part-*")]
    runs = list((cache / "scratch").glob("run-*.lock")) if working else []
    return parts + [str(run) for run in runs[1:]]


class Campaign:
    """The kills of one command, in one store after another."""

    def __init__(self, subject: Subject, work: Path, seed: int, done: int) -> None:
        self._subject, self._work, self._seed, self._number = subject, work, seed, done
        self._cache = work / f"cache-{subject.name}"
        self._store, self._store_number, self._kills = work / "none", done, A_STORE

    def step(self) -> bool:
        """One trial; whether it went wrong."""
        number, subject = self._number, self._subject
        if self._kills >= A_STORE:
            shutil.rmtree(self._store, ignore_errors=True)
            self._store_number, self._kills = number, 0
            self._store = self._work / f"{subject.name}-store-{number}"
            shutil.rmtree(self._store, ignore_errors=True)
        make = subject.resume if _resumable(self._store, subject) else subject.start
        line = make(self._store, self._seed + self._store_number)
        trial = Trial(subject, line, self._store, self._cache, random.Random(f"{subject.name}/{self._seed}/{number}"))
        told = trial.run()
        self._number += 1
        self._kills += 1
        left = left_behind(self._store, self._cache, told["first"])
        told["problems"] += [f"left behind: {what}" for what in left]
        told = {"subject": subject.name, "number": number, "command": " ".join(line[:3]), **told}
        append_line(self._work / "trials.jsonl", told)
        if told["problems"]:
            kept = self._work / "wrong" / f"{subject.name}-{number}"
            shutil.copytree(self._store, kept, dirs_exist_ok=True, ignore_dangling_symlinks=True)
            print(json.dumps(told)[:2000], flush=True)
        if told["ended"] is not None:
            self._kills = A_STORE  # it came to its end: the next one is another
        return bool(told["problems"])


def _resumable(store: Path, subject: Subject) -> bool:
    """Was it begun, and not ended? A hunt or an audit that was killed before or after that is started, not resumed."""
    table = {"hunt": "hunts", "audit": "audits"}.get(subject.name)
    return table is None or has_unfinished(store, table)


HEADS = (
    "command",
    "kills of it",
    "as it stored or wrote",
    "with a nursery or worker",
    "kills of a worker or nursery alone",
    "seconds until something new was stored: median, most",
    "longest row of kills without anything new",
    "seconds until no process was left: median, most",
    "went wrong",
)


def table(trials: list[dict[str, Any]]) -> str:
    """What came of them, in Markdown."""
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for trial in trials:
        groups[trial["subject"]].append(trial)
    for name, found in {**groups, "all": trials}.items():
        killed = [trial for trial in found if trial["ended"] is None]
        barren = longest = 0
        for trial in killed if name != "all" else ():
            barren = 0 if trial["gained"] else barren + 1
            longest = max(longest, barren)
        cells = (
            name,
            len(killed),
            sum(trial["moment"] != "random" for trial in killed),
            sum(trial["victims"] != "command" for trial in killed),
            sum(len(trial["alone"]) for trial in found),
            _middle_and_most([trial["first"] for trial in found if trial["first"]]),
            longest if name != "all" else "",
            _middle_and_most([trial["orphans"] for trial in killed]),
            sum(bool(trial["problems"]) for trial in found),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _middle_and_most(numbers: list[float]) -> str:
    ordered = sorted(numbers)
    return f"{ordered[len(ordered) // 2]:.2f}, {ordered[-1]:.2f}" if ordered else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="where stores, caches and results are")
    parser.add_argument("--count", type=int, default=1000, help="kills in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(subject.name for subject in SUBJECTS if subject.name != WRITER))
    parser.add_argument("--table", action="store_true", help="show what came of the trials so far")
    arguments = parser.parse_args()
    work: Path = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    results = work / "trials.jsonl"
    trials = read_lines(results)
    wrong = 0
    if not arguments.table:
        done = Counter(trial["subject"] for trial in trials)
        chosen = [subject for subject in SUBJECTS if subject.name in arguments.only.split(",")]
        campaigns = [Campaign(subject, work, arguments.seed, done[subject.name]) for subject in chosen]
        for number in range(arguments.count // len(chosen)):
            for subject, campaign in zip(chosen, campaigns, strict=True):
                if number >= done[subject.name]:
                    wrong += campaign.step()
        trials = read_lines(results)
    print(table(trials))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
