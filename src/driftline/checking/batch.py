"""Screening: many programs on one target, in three jobs instead of three for each program.

A worker of the framework makes the programs and runs their reference, a worker of the target runs them, and the first
one judges. Isolation is the same as in `check`: a program that kills its worker costs that worker; the others of its
batch go on in the next one.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from driftline.backends import BACKENDS, resolve
from driftline.checking.checker import declared_arithmetic
from driftline.checking.kinds import worker_for_framework, worker_for_target
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import InternalError
from driftline.core.execution import Failure, Outcome
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.core.verdict import Kind
from driftline.execute.grouping import evenly, in_company
from driftline.execute.pool import Pool, Report
from driftline.execute.shelf import Shelf, load_samples
from driftline.execute.tasks import RESULTS, TENSORS, TOGETHER
from driftline.generate.table import OPERATORS

_TASKS = "driftline.checking.batch_tasks"
_ENDINGS = {"died": Outcome.CRASH, "timeout": Outcome.TIMEOUT, "memory": Outcome.OOM}
_KINDS = {Outcome.ERROR: Kind.ERROR, Outcome.CRASH: Kind.CRASH, Outcome.TIMEOUT: Kind.TIMEOUT, Outcome.OOM: Kind.OOM}

_Made = Mapping[str, Any]  # what `prepare` answered: a program and its files
_Piece = TypeVar("_Piece")
_Done = TypeVar("_Done")


@dataclass(frozen=True)
class Screened:
    """What became of one request. `judgement` is a verdict's, or `invalid` when the program itself does not run, or
    `nothing` when the generator had no program."""

    request: Mapping[str, Any]
    judgement: str
    reason: str = ""
    kind: str = ""
    stage: str = ""
    z: float = 0.0
    sample: int = 0
    evidence: str = ""  # its class, of a failure that shows in numbers
    output: str = ""  # the one that is wrong
    each: tuple[Mapping[str, Any], ...] = ()  # the verdict on every sample, where the program asks for all of them
    internal_error: str = ""  # a fault of ours; the judgement is then inconclusive
    made: _Made | None = None
    behaviour: tuple[str, ...] = ()  # rewrite rules of the compiler that fired, where it tells

    @property
    def coverage(self) -> list[tuple[str, str]]:
        return [(op, dtype) for op, dtype in self.made["coverage"]] if self.made else []


class Screening:
    """The programs of one batch with their files, which live as long as the block."""

    def __init__(
        self,
        pool: Pool,
        form: str,
        *,
        seed: int = 0,
        plugins: Sequence[str] = (),
        timeout: float = 60.0,
        shards: int = 1,
    ) -> None:
        self._pool = pool
        self._form = form
        self._seed = seed
        self._plugins = tuple(plugins)
        self._timeout = timeout
        self._shards = shards
        self._numbers = itertools.count()

    def __enter__(self) -> Screening:
        self.folder = self._pool.workspace.job_folder()
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _new_folder(self) -> Path:
        folder = self.folder / str(next(self._numbers))
        folder.mkdir()
        return folder

    def prepare(self, requests: Sequence[Mapping[str, Any]], *, sizes: bool = True) -> list[dict[str, Any]]:
        """Make the programs. Should one of them take the worker down, it is invalid and the others are made again."""
        payload = {
            "folder": str(self._new_folder()),
            "form": self._form,
            "seed": self._seed,
            "sizes": sizes,
            "plugins": list(self._plugins),
        }
        report = self._ask("prepare", {**payload, "requests": list(requests)})
        if report.ending == "done":
            return list(report.result["programs"])
        if len(requests) == 1:
            return [{"invalid": f"its reference run ended with {report.ending} ({report.detail})"}]
        answers = []
        for request in requests:
            alone = self._ask("prepare", {**payload, "folder": str(self._new_folder()), "requests": [request]})
            if alone.ending == "done":
                answers += alone.result["programs"]
            else:
                answers.append({"invalid": f"its reference run ended with {alone.ending} ({alone.detail})"})
        return answers

    def screen(self, requests: Sequence[Mapping[str, Any]], target: Target) -> list[Screened]:
        """Make, run and judge. One result for each request, in their order."""
        made = self._prepared(requests, sizes=BACKENDS.get(target.backend).sizes)
        results: list[Screened] = []
        runnable: dict[int, dict[str, Any]] = {}
        for number, (request, answer) in enumerate(zip(requests, made, strict=True)):
            if "nothing" in answer:
                results.append(Screened(request, "nothing", answer["nothing"]))
            elif "invalid" in answer:
                made_of = answer if "coverage" in answer else None
                ours = answer.get("internal_error", "")
                results.append(Screened(request, "invalid", answer["invalid"], internal_error=ours, made=made_of))
            else:
                results.append(Screened(request, "", made=answer))
                runnable[number] = answer
        pieces = self._pieces(runnable, resolve(target).together)
        for executions, verdicts in self._side_by_side(lambda piece: self._run_and_judge(piece, target), pieces):
            for number, execution in executions.items():
                results[number] = replace(results[number], behaviour=tuple(execution.get("behaviour", ())))
                if execution["outcome"] != Outcome.OK:
                    results[number] = _ended(results[number], execution)
            for number, verdict in verdicts.items():
                results[number] = _judged(results[number], verdict)
        return results

    # -- in pieces, for a hunt with more processors than targets -----------------------------------------------------

    def _prepared(self, requests: Sequence[Mapping[str, Any]], *, sizes: bool) -> list[dict[str, Any]]:
        pieces = list(evenly(requests, self._shards))
        done = self._side_by_side(lambda piece: self.prepare(piece, sizes=sizes), pieces)
        return [answer for answers in done for answer in answers]

    def _pieces(self, programs: Mapping[int, _Made], together: int) -> list[dict[int, _Made]]:
        """What a worker takes at a time. Those that are compiled together stay together, so there are more pieces than
        workers, and who is done early takes another one. Gradients and several sizes take longest to compile: with them
        first, all workers end at about the same time."""
        if self._shards == 1 or together == 1:
            return [dict(piece) for piece in evenly(list(programs.items()), self._shards)]
        pieces = [dict(group) for group in in_company(programs.items(), lambda item: item[1]["company"], together)]
        return sorted(pieces, key=lambda piece: next(iter(piece.values()))["company"] == "plain")

    def _side_by_side(self, work: Callable[[_Piece], _Done], pieces: Sequence[_Piece]) -> list[_Done]:
        if len(pieces) < 2 or self._shards == 1:
            return [work(piece) for piece in pieces]
        with ThreadPoolExecutor(self._shards) as threads:
            return list(threads.map(work, pieces))

    # -- running -----------------------------------------------------------------------------------------------------

    def _run_and_judge(
        self, programs: Mapping[int, _Made], target: Target
    ) -> tuple[dict[int, dict[str, Any]], dict[int, dict[str, Any]]]:
        executions = self._execute(programs, target)
        ran = {number: execution for number, execution in executions.items() if execution["outcome"] == Outcome.OK}
        return executions, self._judge(programs, ran, target)

    def _execute(self, programs: Mapping[int, _Made], target: Target) -> dict[int, dict[str, Any]]:
        backend = resolve(target)
        worker = worker_for_target(backend, target, self._plugins)
        waiting = {
            number: {
                "number": number,
                "program": made["program"],
                "path": made["path"],
                "tensors": made["tensors"],
                "grad": made["grad"],
                "seed": 0,
                "company": made["company"],
            }
            for number, made in programs.items()
        }
        done: dict[int, dict[str, Any]] = {}
        for number, made in programs.items():
            if made["grad"] and not backend.gradients:
                done[number] = _refused("this backend computes no gradients")
            elif _depends_on_memory(made) and not backend.mutates:
                done[number] = _refused(
                    "this backend is given copies, where what is written to memory means another thing"
                )
        waiting = {number: job for number, job in waiting.items() if number not in done}
        while waiting:
            folder = self._new_folder()
            payload = {
                "backend": target.backend,
                "options": target.told,
                "jobs": list(waiting.values()),
                "folder": str(folder),
                "plugins": list(self._plugins),
            }
            report = self._pool.run(
                worker,
                "driftline.execute.tasks:run_many",
                payload,
                timeout=self._timeout * max(1, backend.together / 4),
            )
            results, unfinished = _read_results(folder)
            done |= results
            if report.ending != "done":
                _take_casualty(report, unfinished, waiting, done, backend.together)
            waiting = {number: job for number, job in waiting.items() if number not in done}
            if report.ending == "done" and waiting:
                raise InternalError(f"{len(waiting)} of the programs were never run")
        return done

    def _judge(
        self, programs: Mapping[int, _Made], ran: Mapping[int, Mapping[str, Any]], target: Target
    ) -> dict[int, dict[str, Any]]:
        if not ran:
            return {}
        backend = BACKENDS.get(target.backend)
        items = [{**programs[number], "outputs": ran[number]["outputs"]} for number in ran]
        report = self._ask_judge(items, backend.mutates, backend.renames_outputs, declared_arithmetic(backend, target))
        if report.ending == "done":
            return dict(zip(ran, report.result["verdicts"], strict=True))
        if len(ran) == 1:
            reason = f"its judgement ended with {report.ending} ({report.detail})"
            return {number: {"judgement": "inconclusive", "reason": reason, "kind": "", "z": 0.0} for number in ran}
        verdicts: dict[int, dict[str, Any]] = {}
        for number in ran:
            verdicts |= self._judge(programs, {number: ran[number]}, target)
        return verdicts

    def _ask_judge(
        self, items: Sequence[Mapping[str, Any]], mutates: bool, renames: bool, arithmetic: str = ""
    ) -> Report:
        payload = {
            "items": [
                {key: value for key, value in item.items() if key not in ("graph", "coverage")} for item in items
            ],
            "mutates": mutates,
            "renames": renames,
            "arithmetic": arithmetic,
            "plugins": list(self._plugins),
        }
        return self._ask("judge_many", payload)

    def contradicts(self, made: Mapping[str, Any], outputs: Sequence[Arrays]) -> str:
        """Is this what the reference of a program would fail, had a compiler returned it? The reason, or nothing."""
        with Shelf(self._new_folder() / TENSORS) as shelf:
            places = [shelf.put(arrays) for arrays in outputs]
        report = self._ask_judge([{**made, "outputs": places}], mutates=False, renames=True)
        if report.ending != "done":
            return ""
        verdict = report.result["verdicts"][0]
        return str(verdict["reason"]) if verdict["judgement"] == "fail" else ""

    def _ask(self, task: str, payload: Mapping[str, Any]) -> Report:
        worker = worker_for_framework(self._form, self._plugins)  # forms go by the names of their frameworks
        return self._pool.run(worker, f"{_TASKS}:{task}", payload, timeout=self._timeout)


def _refused(reason: str) -> dict[str, Any]:
    failure = {"type": "Unsupported", "message": reason}
    return {"outcome": Outcome.REJECTED, "stage": "COMPILE", "failure": failure, "outputs": []}


def _depends_on_memory(made: Mapping[str, Any]) -> bool:
    """Does the meaning of the program depend on how its inputs lie in memory? It does when it writes into them."""
    if not made["graph"] or all(leaf["layout"] == "contiguous" for leaf in made["graph"]["leaves"]):
        return False
    return any(OPERATORS[node["op"]].inplace for node in made["graph"]["nodes"])


def _read_results(folder: Path) -> tuple[dict[int, dict[str, Any]], dict[int, list[str]]]:
    """What was finished, and of what was not, the places of the outputs so far."""
    results: dict[int, dict[str, Any]] = {}
    unfinished: dict[int, list[str]] = {}
    path = folder / RESULTS
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            answer = json.loads(line)
        except json.JSONDecodeError:  # the process died while it wrote this one
            continue
        if "outcome" in answer:
            results[answer["number"]] = answer
        else:
            unfinished.setdefault(answer["number"], []).append(answer["finished"])
    return results, unfinished


def _take_casualty(
    report: Report,
    unfinished: Mapping[int, list[str]],
    waiting: dict[int, dict[str, Any]],
    done: dict[int, dict[str, Any]],
    together: int,
) -> None:
    """Which program was it that ended the worker? Those that were compiled together with it are asked one by one, and
    with them perhaps some of the next group: how large this one was is not told."""
    number, _, stage = report.stage.partition(" ")
    if stage == TOGETHER:
        first = waiting[int(number)]
        group = [job for job in waiting.values() if job["company"] == first["company"] and job["number"] >= int(number)]
        for job in group[:together]:
            job["company"] = ""
        return
    culprit = int(number) if number else next(iter(waiting))
    done[culprit] = {
        "outcome": _ENDINGS[report.ending],
        "stage": stage or "COMPILE",
        "failure": {"type": report.detail, "message": ""},
        "outputs": unfinished.get(culprit, []),
    }


def _judged(result: Screened, verdict: Mapping[str, Any]) -> Screened:
    """A program that ran to its end."""
    return replace(
        result,
        judgement=verdict["judgement"],
        reason=verdict["reason"],
        kind=verdict["kind"] or "",
        stage="RUN",
        z=verdict["z"],
        sample=verdict.get("sample", 0),
        evidence=verdict.get("evidence", ""),
        output=verdict.get("output", ""),
        each=tuple(verdict.get("each", ())),
        internal_error=verdict.get("internal_error", ""),
    )


def _ended(result: Screened, execution: Mapping[str, Any]) -> Screened:
    """A program that was refused, or that ended badly."""
    outcome = Outcome(execution["outcome"])
    failure = Failure.from_json(execution["failure"]) if "failure" in execution else None
    if execution.get("problem"):
        return replace(result, judgement="inconclusive", reason=execution["problem"])
    assert result.made
    sample = min(len(execution["outputs"]), len(result.made["origins"]) - 1)  # after those that were finished
    if outcome is Outcome.REJECTED:
        return replace(result, judgement="rejected", reason=str(failure or "not supported"), sample=sample)
    return replace(
        result,
        judgement="fail",
        kind=str(_KINDS[outcome]),
        stage=execution["stage"],
        reason=str(failure or outcome),
        sample=sample,
    )


def case_of(made: Mapping[str, Any], target: Target, options: CheckOptions, samples: Sequence[int] = ()) -> Case:
    """A prepared program as an ordinary case, with its inputs in memory."""
    drawn = load_samples(made["tensors"])
    chosen = samples or range(len(drawn))
    program = Program.from_json(made["program"], Path(made["path"]))
    inputs = tuple(Inputs(drawn[index], made["origins"][index]) for index in chosen)
    return Case(program, inputs, (target,), replace(options, grad=made["grad"]))


def native_of(made: Mapping[str, Any]) -> list[Arrays]:
    return load_samples(made["native"])
