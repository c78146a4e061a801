"""Run the reduction of a script: from a failing script to the smallest one that still fails in the same way."""

from __future__ import annotations

import ast
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.verdict import Judgement
from driftline.diagnose.reduce.scripts.asking import ScriptAsker, differing
from driftline.diagnose.reduce.scripts.backends_kept import backend_texts, backends_of, on_backend
from driftline.diagnose.reduce.scripts.callables import (
    class_attributes,
    fewer_parameters,
    functions_for_classes,
    instances_for_classes,
    plain_definitions,
    variables_for_attributes,
)
from driftline.diagnose.reduce.scripts.edits import Edit, edited, written
from driftline.diagnose.reduce.scripts.expressions import (
    PLAIN,
    constants,
    fewer_elements,
    observed_values,
    parts,
    plainer_constants,
)
from driftline.diagnose.reduce.scripts.inlining import inlined_calls, inlined_variables
from driftline.diagnose.reduce.scripts.likeness import DifferenceSort, sort_of, sorts_of
from driftline.diagnose.reduce.scripts.observed import Observed, instrumented, read_observed
from driftline.diagnose.reduce.scripts.search import ScriptSearch, ScriptStep
from driftline.diagnose.reduce.scripts.size import code_lines
from driftline.diagnose.reduce.scripts.statements import deletions, members, shorter_loops, unreached, unwrappings
from driftline.diagnose.reduce.scripts.tidying import tidy
from driftline.diagnose.reduce.search import BudgetEnded
from driftline.execute.pool import Pool, PoolExpired
from driftline.scenarios.judge import ScriptResult
from driftline.scenarios.requests import PlayWay
from driftline.scenarios.runs import ScriptOptions
from driftline.scenarios.script import UserScript
from driftline.scenarios.target import BACKEND_NAMES

RUNGS = ("eager", "aot_eager")  # backends that compile faster: where the failure shows on one, it is searched there
PATIENCE = 10.0  # seconds for a run of a candidate, in addition to a multiple of the script's time
COARSE = 8  # statements that are left out together, as long as the script has all its functions
LONGEST_CHAIN = 24  # changes that are made at once
_RESERVE, _JUDGEMENTS = 0.1, 0.5  # for the final judgement: share of the budget, and of the first judgement's time


@dataclass(frozen=True)
class ScriptReduction:
    """The result of reducing a script. `before` and `after` are texts."""

    before: str
    after: str
    target: str
    backend: str  # of quick questions
    keep: tuple[DifferenceSort, ...]
    reason: str  # the judge's sentence on the result
    questions: int
    seconds: float
    complete: bool  # False: the budget ended it
    steps: tuple[ScriptStep, ...]

    @property
    def lines_before(self) -> int:
        return code_lines(self.before)

    @property
    def lines_after(self) -> int:
        return code_lines(self.after)

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "searched_on": self.backend,
            "kept": [str(one) for one in self.keep],
            "reason": self.reason,
            "lines_before": self.lines_before,
            "lines_after": self.lines_after,
            "questions": self.questions,
            "seconds": round(self.seconds, 2),
            "complete": self.complete,
            "text": self.after,
            "steps": [step.to_json() for step in self.steps],
        }


def reduce_script(
    script: UserScript,
    pool: Pool,
    options: ScriptOptions,
    target: Target | None = None,
    *,
    seconds: float = 180.0,
    listener: Callable[[ScriptStep], None] = lambda step: None,
) -> ScriptReduction:
    """Make a script shorter that fails on a target. Raise `DriftlineError` if it does not fail there. When the time is
    over or the user interrupts, the smallest script so far is returned.
    """
    began = time.monotonic()
    asker = ScriptAsker(script.path, pool, options, target, "")
    first = asker.first(script.text)
    if first.judgement is not Judgement.FAIL:
        said = f"{first.judgement}: {first.reason}"
        raise DriftlineError(
            f"{script.name} does not fail on {target or 'its own backend'} ({said}); only what fails can be reduced."
        )
    asker.keep = sorts_of(first.differences)
    asker.patience = min(options.timeout, PATIENCE + 4 * max(first.seconds.values()))
    asker.backend = _fastest(asker, script.text, target)
    start = script.text
    if target and asker.confirmed(told := on_backend(start, BACKEND_NAMES[target.backend])):
        start = told
    for_judge = max(_RESERVE * seconds, _JUDGEMENTS * (time.monotonic() - began))
    search = ScriptSearch(start, asker.quick, asker.confirmed, began + seconds - for_judge, listener)
    complete = _Course(search, asker).run()
    with contextlib.suppress(KeyboardInterrupt):
        search.settle()
    last = asker.judged(search.confirmed)  # known already
    return ScriptReduction(
        script.text,
        search.confirmed,
        first.target,
        asker.backend,
        tuple(sorted(asker.keep, key=str)),
        _kept_sentence(last or first, asker.keep),
        search.questions,
        time.monotonic() - began,
        complete,
        tuple(search.steps),
    )


def _kept_sentence(result: ScriptResult, keep: frozenset[DifferenceSort]) -> str:
    """Return the judge's sentence on the difference that was kept."""
    return next((one.sentence for one in result.differences if sort_of(one) in keep), result.reason)


def _fastest(asker: ScriptAsker, text: str, target: Target | None) -> str:
    """Return the first rung on which the failure shows, for quick questions; empty for the script's own backend."""
    own = BACKEND_NAMES[target.backend] if target else ""
    for rung in RUNGS:
        asker.backend = rung
        eager = asker.run(text, PlayWay.EAGER)
        asker.raised = eager.raised
        if differing(eager, asker.run(text, PlayWay.COMPILED)) & asker.keep:
            return rung
        if rung == own:
            break
    return own


class _Course:
    """Runs the passes in their order."""

    def __init__(self, search: ScriptSearch, asker: ScriptAsker) -> None:
        self._search = search
        self._asker = asker
        self._backends = backend_texts(ast.parse(search.best))
        self._seen_of = ""
        self._seen = Observed()

    def run(self) -> bool:
        """Repeat the passes until none makes the text smaller. False if the budget ended or the user interrupted before
        that.
        """
        try:
            self._begin()
            while True:
                before = self._search.best
                self._round()
                if self._search.best == before:
                    self._search.settle()
                    if self._search.best == before and self._ended():
                        return True
        except (BudgetEnded, PoolExpired, KeyboardInterrupt):
            return False

    def _begin(self) -> None:
        """Make the changes that remove much at once."""
        self._whole("plain definitions", plain_definitions)
        reached = self._observed().reached
        if reached:
            self._grouped("never executed", lambda tree: unreached(tree, reached))
        self._grouped("statements", deletions, least=COARSE)

    def _round(self) -> None:
        self._whole("calls inlined", lambda tree: inlined_calls(tree, self._observed()))
        self._grouped("observed numbers", lambda tree: observed_values(tree, self._observed(), tensors=False))
        self._grouped("observed tensors", lambda tree: observed_values(tree, self._observed(), tensors=True))
        self._grouped("statements", deletions)
        self._grouped("members", members)
        self._grouped("blocks unwrapped", unwrappings)
        self._whole("a function for a class", functions_for_classes)
        self._whole("a class for its objects", instances_for_classes)
        self._whole("attributes of the class", class_attributes)
        self._whole("variables for attributes", variables_for_attributes)
        self._whole("fewer parameters", fewer_parameters)
        self._whole("variables inlined", inlined_variables)
        self._grouped("parts of expressions", parts)
        self._grouped("fewer elements", fewer_elements)
        self._grouped("shorter loops", shorter_loops)
        self._grouped("plain constants", constants)

    def _ended(self) -> bool:
        """Simplify numbers at the end, since no other pass depends on them. True if nothing became smaller."""
        before = self._search.best
        for number in PLAIN:
            self._grouped("plainer constants", lambda tree, number=number: plainer_constants(tree, number))  # type: ignore[misc]
        self._search.settle()
        return self._search.best == before

    def _whole(self, what: str, trees: Callable[[ast.Module], Iterable[ast.Module]]) -> None:
        """Try all changes applied one after another, then the first half of them, and so on; then each change alone."""
        while True:
            tree = ast.parse(self._search.best)
            if not self._search.first(self._fit([*_chained(tree, trees), *_texts(trees(tree))]), what):
                return

    def _grouped(self, what: str, edits_of: Callable[[ast.Module], list[Edit]], least: int = 1) -> None:
        """Try all edits at once, then halves of them, and so on down to single edits (or groups of `least`), from the
        last to the first.
        """
        width = len(edits_of(ast.parse(self._search.best)))
        while width >= least:
            end: int | None = None
            while True:
                tree = ast.parse(self._search.best)
                edits = self._allowed(tree, edits_of(tree))
                ends = range(len(edits) if end is None else min(end, len(edits)), 0, -width)
                places: dict[str, int] = {}
                if not self._search.first(self._fit(_chunks(tree, edits, ends, width, places)), what):
                    break
                end = places[self._search.best]
            width //= 2

    def _allowed(self, tree: ast.Module, edits: list[Edit]) -> list[Edit]:
        """Return the edits that do not touch the script's own backends."""
        if not self._backends:
            return edits
        kept = {id(inside) for node in backends_of(tree) for inside in ast.walk(node)}
        places = [id(node) in kept for node in ast.walk(tree)]
        return [edit for edit in edits if not places[edit.at]]

    def _fit(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the texts whose backends are unchanged."""
        return (text for text in texts if not self._backends or self._backends == backend_texts(ast.parse(text)))

    def _observed(self) -> Observed:
        """Return the observations of the best text in a run without the compiler."""
        if self._seen_of != self._search.best:
            self._seen_of = self._search.best
            run = self._asker.run(instrumented(self._seen_of), PlayWay.EAGER)
            self._seen = read_observed(self._seen_of, run.recorded.printed)
        return self._seen


def _chunks(tree: ast.Module, edits: list[Edit], ends: range, width: int, places: dict[str, int]) -> Iterator[str]:
    """Yield texts with `width` edits each. `places` receives the index of the first edit of each text."""
    for end in ends:
        start = max(0, end - width)
        for text in _texts([edited(tree, edits[start:end])]):
            places.setdefault(text, start)
            yield text


def _chained(tree: ast.Module, changes: Callable[[ast.Module], Iterable[ast.Module]]) -> list[str]:
    """Return texts with many changes applied in a row, those with the most first."""
    made: list[str] = []
    while len(made) < LONGEST_CHAIN:
        text = next(_texts(changes(tree)), None)
        if text is None or text in made:
            break
        made.append(text)
        tree = ast.parse(text)
    found = []
    while len(made) > 1:
        found.append(made[-1])
        made = made[: len(made) // 2]
    return found


def _texts(trees: Iterable[ast.Module]) -> Iterator[str]:
    for tree in trees:
        with contextlib.suppress(AttributeError):  # a node without a part that it must have: no program
            tidy(tree)
            text = written(tree)
            if text is not None:
                yield text
