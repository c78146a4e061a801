"""Detects targets that are broken as a whole, such as a faulty plug-in or a compiler whose parts do not fit together.

Such a target raises an error or crashes on every program, so every program would seem to show a bug. Before an error or
a crash is blamed on a program, the target runs trivial programs: a copy and a sum of ordinary floats, each twice. A
target on which a program fails once and passes once is unreliable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from driftline.backends import BACKENDS
from driftline.campaign.check.forms import FORM_OF, form_of
from driftline.checking.batch import Screened, Screening
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker, CheckOutcome, Skipped
from driftline.core.case import CheckOptions
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Kind
from driftline.execute.pool import WorkerStartError
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.generate.table import OPERATORS

_ROW = TensorType("float32", (4,))
_OPERANDS = {"identity": 1, "add": 2}
_WORDS = {"identity": "a copy of an ordinary tensor", "add": "a sum of two ordinary tensors"}
_TRIVIAL = ("identity", "add", "add", "identity")  # detects a target that fails every second time
_SHOWN = 200  # characters of an error
_ENDS = (Kind.ERROR, Kind.CRASH)  # the ways in which a broken target fails


def trivial_requests(form: str) -> tuple[ProgramRequest, ...]:
    """Return requests for a copy and a sum of ordinary numbers, each twice, that no working target gets wrong."""
    return tuple(
        ProgramRequest("trivial", name, 0, ("random",), seed=f"trivial/{at}", graph=_alone(name, _OPERANDS[name]))
        for at, name in enumerate(_TRIVIAL)
        if OPERATORS[name].takes(form, _ROW)
    )


def _alone(name: str, operands: int) -> Graph:
    return Graph((Leaf("input", _ROW),) * operands, (Node(name, tuple(range(operands)), (_ROW,)),), (operands,))


def why_broken(answers: Sequence[Screened]) -> str:
    """Return why a target with these answers to the trivial programs is broken or unreliable; an empty string if it is
    neither, or if there are no answers."""
    failed = [answer for answer in answers if is_error(answer)]
    if not failed:
        return ""
    said = " ".join(failed[-1].reason.split())[:_SHOWN].rstrip(".")
    if len(failed) == len(answers):
        return f"it is broken: even a sum of two ordinary tensors fails ({said})"
    for name, words in _WORDS.items():
        same = [answer for answer in answers if answer.request.arm == name]
        times = sum(map(is_error, same))
        if times and any(answer.judgement == "pass" for answer in same):
            return f"it is unreliable: {words} fails in {times} of {len(same)} runs ({said})"
    return ""


def is_error(answer: Screened) -> bool:
    """True if an answer is an error or a crash, as a broken target gives."""
    return answer.judgement == "fail" and answer.kind in _ENDS


def without_broken(checker: Checker, outcome: CheckOutcome) -> CheckOutcome:
    """Return the outcome of a check in which the targets that fail on trivial programs, too, are skipped."""
    broken = {
        row.target: why
        for row in outcome.results
        if row.verdict.judgement is Judgement.FAIL and row.verdict.kind in _ENDS
        if (why := _asked(checker, outcome.case.runs, row.target, outcome.case.options))
    }
    skipped = tuple(Skipped(target, why) for target, why in broken.items())
    results = tuple(row for row in outcome.results if row.target not in broken)
    return replace(outcome, results=results, skipped=(*outcome.skipped, *skipped))


def _asked(checker: Checker, program: Program, target: Target, options: CheckOptions) -> str:
    """Return why a target is broken, or an empty string. The trivial programs are in the language of `program` if the
    target accepts that."""
    backend = BACKENDS.get(target.backend)
    own = {FORM_OF[form] for form in backend.accepts if form in FORM_OF}
    form = program.framework if program.framework in own else form_of(backend)
    if form is None:
        return ""
    try:
        with Screening(
            checker.pool, form, plugins=options.plugins, timeout=options.timeout, explain=False
        ) as screening:
            return why_broken(screening.screen(trivial_requests(form), target))
    except WorkerStartError:  # the target could not be tested
        return ""
