"""Reduction of a stored bug: answers are stored as they come, the result is stored with the bug, new failures become
bugs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, MutableMapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from driftline.backends import BACKENDS
from driftline.campaign.check.annotation import examined
from driftline.campaign.check.session import record, verdict_json
from driftline.campaign.explain.budget import cut_at_end
from driftline.campaign.explain.failing import Failing, require_one_program
from driftline.campaign.explain.inquiry import Inquiry
from driftline.campaign.explain.localization import failing_sample, votes_for
from driftline.causes import Library, builtin
from driftline.checking.checker import Checker
from driftline.core.case import Case
from driftline.core.program import file_digest
from driftline.core.titles import KEY
from driftline.diagnose.localize.localizer import Lone
from driftline.diagnose.reduce.asking import Asker, Checked
from driftline.diagnose.reduce.question import CandidateQuestion
from driftline.diagnose.reduce.reducer import NotReducible, Reduction, reduce_case
from driftline.diagnose.reduce.search import CandidateAnswer, ReductionStep, Reply
from driftline.diagnose.reduce.signature import Signature
from driftline.events import Listener, Shrunk, ignore
from driftline.execute.pool import PoolExpired
from driftline.report.program import program_text
from driftline.report.title_facts import facts_of
from driftline.store import Bug, Store
from driftline.store.reductions import Answers, Reductions

SEARCH = 0.85  # share of the budget; the rest is for a full check of the result
MEASURED_SEARCH = 0.6  # the same for cost bugs: a measurement takes as long as many questions
SHOWN = 200  # elements of the largest input whose values are stored


@dataclass(frozen=True)
class Reduced:
    """A reduction and the JSON that is stored for it."""

    failing: Failing
    reduction: Reduction
    body: dict[str, Any]
    others: tuple[Bug, ...]  # bugs that the reduction met


def reduce_failing(
    checker: Checker,
    store: Store,
    failing: Failing,
    *,
    budget: float,
    alone: bool = False,
    library: Library | None = None,
    inquiry: Inquiry | None = None,
    listener: Listener = ignore,
) -> Reduced:
    """Reduce a failure within a budget of seconds, and store the result with its bug. `alone`: try single operators
    first, and reduce one that fails by itself. The causes in `library` make their experiments on the result. `inquiry`:
    the measurement to repeat, for a cost bug."""
    require_one_program(failing.case, "reduce")
    with cut_at_end(checker.pool, budget, "reduce"):
        reduction, facts = _reduced(
            checker, store, failing, budget, alone, builtin() if library is None else library, inquiry, listener
        )
    others = []
    for other in reduction.others:
        bug = record(store, other.case, other.result, other.reference, {"met_while_reducing": failing.bug.id})
        if bug:
            others.append(bug)
    if facts:
        store.note_sighting(failing.bug.id, failing.finding, facts)
    body = _body(store, failing, reduction, others)
    if reduction.smallest and not inquiry:
        store.note_smallest(failing.bug.id, failing.finding, _form(body["case"], reduction.smallest))
    Reductions(store).save(failing.bug.id, body)
    return Reduced(failing, reduction, body, tuple(others))


def _reduced(
    checker: Checker,
    store: Store,
    failing: Failing,
    budget: float,
    alone: bool,
    library: Library,
    inquiry: Inquiry | None,
    listener: Listener,
) -> tuple[Reduction, dict[str, Any] | None]:
    """Return the reduction, and the facts of its smallest program for the causes, or None if there was no time for
    them."""
    answers = Answers(store)
    signature = Signature.of_finding(failing.finding.verdict, failing.finding.execution)
    if inquiry:
        signature = replace(signature, message=inquiry.message)
    began = time.monotonic()

    def tell(step: ReductionStep) -> None:
        listener(Shrunk(step.seconds, step.queries, str(step.size), step.what))

    def reduced(case: Case, first: tuple[ReductionStep, ...] = ()) -> Reduction:
        found = reduce_case(
            checker,
            case,
            signature,
            budget=(MEASURED_SEARCH if inquiry else SEARCH) * budget - (time.monotonic() - began),
            votes=votes_for(failing),
            memos=lambda question: _Memo(answers, question),
            asks=inquiry.asker if inquiry else Asker,
            listener=tell,
        )
        return replace(found, steps=(*first, *found.steps), seconds=time.monotonic() - began)

    lone = _lone(checker, failing, signature, budget) if alone and not inquiry else None
    try:
        whole = (ReductionStep(0.0, 0, "the whole program", lone.of_size),) if lone else ()
        reduction = reduced(lone.case.only(failing.target) if lone else failing.case, whole)
    except NotReducible:
        if lone is None:
            raise
        reduction = reduced(failing.case)
    facts = None
    if (smallest := reduction.smallest) and not inquiry:  # causes explain wrong results only
        with contextlib.suppress(PoolExpired):
            facts = examined(checker, smallest.case, smallest.result, library).facts()
    return reduction, facts


def _lone(checker: Checker, failing: Failing, signature: Signature, budget: float) -> Lone | None:
    """Return an operator of the program that fails by itself in the same way, or None. A torch program stays one, even
    if the compiler is given an exported model."""
    question = CandidateQuestion(failing_sample(failing), failing.target, signature, votes_for(failing))
    found = Lone.of(checker, question, time.monotonic(), budget, lambda words: None)
    return found if found and found.case.program.framework == failing.case.program.framework else None


class _Memo(MutableMapping[str, Reply]):
    """The stored answers to one question. A newer compiler, or an edited plugin or hardware profile, makes another
    question."""

    def __init__(self, answers: Answers, question: CandidateQuestion) -> None:
        options = question.case.options
        backend = BACKENDS.get(question.target.backend)
        files = backend.files(dict(question.target.options))
        parts = {
            "target": str(question.target),
            "version": question.target.version or backend.version(),
            "files": [file_digest(path) for path in (*map(Path, options.plugins), *files.values())],
            "framework": question.case.program.framework,
            "signature": asdict(question.signature),
            "votes": asdict(question.votes),
            "options": {**options.to_json(), "timeout": question.timeout},
        }
        self._prefix = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
        self._answers = answers
        self._near: dict[str, Reply] = {}

    def __getitem__(self, key: str) -> Reply:
        if key not in self._near:
            found = self._answers[self._prefix + key]
            self._near[key] = Reply(
                CandidateAnswer(found["answer"]), found["reason"], found["signature"], found["scouted"]
            )
        return self._near[key]

    def __setitem__(self, key: str, reply: Reply) -> None:
        self._near[key] = reply
        if reply.lasting:
            self._answers[self._prefix + key] = {**asdict(reply), "answer": str(reply.answer)}

    def __delitem__(self, key: str) -> None:
        self._near.pop(key, None)
        del self._answers[self._prefix + key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._near)

    def __len__(self) -> int:
        return len(self._near)


def _body(store: Store, failing: Failing, reduction: Reduction, others: list[Bug]) -> dict[str, Any]:
    """Return the JSON form that is stored, shown and printed; docs/json.md describes it."""
    case = reduction.case
    checked = reduction.smallest
    return {
        "bug": failing.bug.id,
        "case": store.save_case(case),
        "of_case": failing.finding.case_id,
        "target": str(case.targets[0]),
        "form": reduction.form,
        "ended": reduction.ended,
        "program": {**case.program.to_json(), "text": program_text(case.program)},
        "inputs": _inputs(case),
        "verdict": verdict_json(checked.result) if checked else None,
        "before": reduction.before.to_json(),
        "after": reduction.after.to_json(),
        "nearest": {
            "case": store.save_case(reduction.nearest),
            "text": program_text(reduction.nearest.program),
            "inputs": _inputs(reduction.nearest),
            "reason": reduction.nearest_reason,
        }
        if reduction.nearest
        else None,
        "others": [bug.id for bug in others],
        "queries": reduction.queries,
        "remembered": reduction.remembered,
        "seconds": round(reduction.seconds, 2),
        "votes": asdict(reduction.votes),
        "steps": [step.to_json() for step in reduction.steps],
    }


def _form(case_id: str, smallest: Checked) -> dict[str, Any]:
    """Return the facts of the smallest program that the title of its bug uses."""
    found = smallest.result.verdict.evidence
    return {"case": case_id, "evidence": found.to_json(), KEY: facts_of(smallest.case, found).to_json()}


def _inputs(case: Case) -> list[dict[str, Any]]:
    """Describe the inputs of the first sample; values are included only if they are few."""
    return [
        {
            "name": name,
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "values": array.tolist() if array.size <= SHOWN and array.dtype.kind != "c" else None,
        }
        for name, array in case.samples[0].arrays.items()
    ]
