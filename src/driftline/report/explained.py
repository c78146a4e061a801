"""Collect the stored results of reduce, localize, ablate, bisect and diagnose for a bug."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from driftline.report import words
from driftline.report.program import reduced_text
from driftline.report.results import command
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses
from driftline.store.reductions import Reductions
from driftline.store.rows import DAMAGE

# What each command answers, in the order in which they are worth running.
STEPS = {
    "ladder": "which stage of torch.compile differs first",
    "localize": "which operators fail by themselves",
    "reduce": "how small it gets",
    "ablate": "which rule, pass or option it needs",
    "bisect": "which releases show it",
}
_BY_DIAGNOSE = ("localize", "reduce", "ablate")
_RESULTS = {
    "ladder": "ladder",
    "localize": "localization",
    "reduce": "reduction",
    "ablate": "ablation",
    "bisect": "bisection",
}


@dataclass(frozen=True)
class StepResults:
    """The last stored result of each diagnosis step of a bug, and the reasons why other steps gave no result."""

    bug: str
    results: Mapping[str, Mapping[str, Any]]  # step -> its result as stored
    notes: Mapping[str, str] = field(default_factory=dict)
    complete: bool = False  # it was stored in its smallest form, and no step is left
    script: bool = False  # it is shown by a script that calls the compiler itself

    @property
    def reduced(self) -> str:
        """The text of the smallest failing program with its inputs, or an empty string if the bug was not reduced."""
        return reduced_text(self.results["reduce"]) if "reduce" in self.results else ""

    @property
    def python(self) -> bool:
        """True if the smallest failing program is Python source."""
        return "reduce" in self.results and self.results["reduce"]["program"]["form"] == "source"

    @property
    def reduced_title(self) -> str:
        """A heading for the reduced program: its size, how the reduction ended, and the id of its case."""
        body = self.results["reduce"]
        size = words.plural(body["after"]["operators"], "operator")
        return f"smallest program that fails: {size}, {words.ended_words(body['ended'])}, case {body['case']}"

    def sentences(self) -> Iterator[str]:
        """Yield sentences about suspects, cures and releases, and about steps that gave no result."""
        yield from self.results.get("ladder", {}).get("sentences", ())
        yield from _suspects(self.results.get("localize", {}))
        yield from _cures(self.results.get("ablate", {}))
        if releases := self.results.get("bisect"):
            yield f"releases of {releases['package']}: {releases['summary']}"
        for step, reason in self.notes.items():
            if step not in self.results:
                yield f"{step} came to nothing: {reason}"

    def to_do(self) -> Iterator[tuple[str, str]]:
        """Yield the names of the steps that were not run, each with the question that the step answers."""
        if self.complete:
            return
        if self.script:
            yield from () if "ladder" in self.results else (("diagnose", STEPS["ladder"]),)
        elif not any(step in self.results for step in _BY_DIAGNOSE):
            yield "diagnose", "where it lies, how small it gets, what it depends on"
        else:
            yield from ((step, STEPS[step]) for step in _BY_DIAGNOSE if step not in self.results)
        if "bisect" not in self.results:
            yield "bisect", STEPS["bisect"]

    def commands(self, store: Store) -> list[str]:
        """Return the command lines that run the missing steps."""
        return [f"{command(step, self.bug, store.path)}  # {tells}" for step, tells in self.to_do()]

    def to_json(self, store: Store) -> dict[str, Any]:
        """Return the sentences, the stored results they were made from, and the missing steps; docs/json.md has the
        schema.
        """
        return {
            "sentences": list(self.sentences()),
            **{name: self.results.get(step) for step, name in _RESULTS.items()},
            "notes": dict(self.notes),
            "to_do": [{"command": command(step, self.bug, store.path), "tells": tells} for step, tells in self.to_do()],
        }


def explained_so_far(store: Store, bug: str) -> StepResults:
    """Read the stored results of every diagnosis step of a bug. Damaged results are skipped and noted as gaps of the
    store.
    """
    kept = Diagnoses(store)
    found = {step: Reductions(store).of(bug) if step == "reduce" else kept.of(bug, step) for step in STEPS}
    notes = (kept.of(bug, "diagnose") or {}).get("notes") or {}
    rows = store.query(  # schedules are stored in reduced form; slow programs are not wrong
        "SELECT verdict FROM findings WHERE bug = ?"
        " AND (verdict LIKE '%\"schedule\"%' OR verdict LIKE '%\"perf\"%') LIMIT 1",
        (bug,),
    )
    script = store.query(
        "SELECT 1 FROM findings WHERE bug = ? AND json_extract(verdict, '$.differences') IS NOT NULL LIMIT 1", (bug,)
    )
    sound = {step: body for step, body in found.items() if body and _can_be_told(store, bug, step, body)}
    return StepResults(bug, sound, notes if isinstance(notes, dict) else {}, complete=bool(rows), script=bool(script))


def _can_be_told(store: Store, bug: str, step: str, body: Mapping[str, Any]) -> bool:
    """True if everything that is shown of a result can be derived from it. A damaged result is noted as a gap of the
    store.
    """
    alone = StepResults(bug, {step: body})
    try:
        _ = list(alone.sentences()), alone.reduced, alone.python
        if step == "reduce":
            _ = alone.reduced_title, list(reduction_steps(body)), reduced_text(body, "nearest")
        return True
    except DAMAGE as error:
        store.note_gap(f"The {step} of {bug} in the store {store.path} is damaged ({error}); it is left out.")
        return False


def reduction_steps(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for each step of a reduction."""
    for step in body.get("steps", ()):
        yield f"{step['seconds']:.0f} s, {step['queries']} candidates: {step['what']}"


def _suspects(body: Mapping[str, Any]) -> Iterator[str]:
    for suspect in body.get("suspects", ()):
        yield f"suspect: {suspect['title']}, {words.places(suspect['operators'], body['operators'])}" + (
            "; without it the program passes" if suspect["rest"] == "pass" else ""
        )
    if body and not body["suspects"]:
        why = body["note"] or "no part fails by itself"
        yield f"no suspect: {why}; the first target that is wrong is {body['first_wrong']}"


def _cures(body: Mapping[str, Any]) -> Iterator[str]:
    for cure in body.get("cures", ()):
        yield f"cure: {cure['target']}" + ("" if cure["confirmed"] else " (not in a fresh process: do not rely on it)")
    if body and not body["cures"]:
        yield f"no cure: {body['note']}"
