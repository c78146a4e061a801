"""Matches suspects that there is no time to examine against the known bugs: many at a time, in few jobs.

A suspect is settled if it passes or is rejected now, or is a known bug itself. It is also settled if some parts fail as
known bugs do (the same operators, kind and class of dtype), or as parts that turned out to be known bugs, the rest
passes, and the failure of the whole follows from that of the parts. All other suspects may be new and stay unexamined.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from driftline.campaign.triage.examination import ExaminedSuspect, Triage, operators_in
from driftline.campaign.triage.following import follows
from driftline.campaign.triage.known_forms import LARGEST
from driftline.campaign.triage.part_screening import PartScreening
from driftline.campaign.triage.plainest import PlainestForm
from driftline.checking.batch import Screened, Screening
from driftline.checking.batch_requests import ProgramRequest
from driftline.core.case import CheckOptions
from driftline.core.identity import operators_named_in
from driftline.core.spelling import spelled_alike
from driftline.core.target import Target
from driftline.core.verdict import VALUE_KINDS
from driftline.core.wire import decode
from driftline.diagnose.reduce.cutting import keep
from driftline.diagnose.reduce.generated import read_generated, write_generated
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph
from driftline.diagnose.reduce.small_parts import OPEN, parts_of
from driftline.execute.shelf import load_samples
from driftline.generate.blueprint import LANGUAGE
from driftline.generate.graph import Graph
from driftline.generate.naming import operators_named
from driftline.store import Bug
from driftline.store.hunts import Suspect

AT_ONCE = 24  # suspects of one batch
_PATIENCE = 20.0  # seconds, for finding the plainest form of the failing parts of a batch


@dataclass
class _Whole:
    """A failing program with known values, which can be cut into parts."""

    place: int  # index of its suspect in the batch
    failing: Screened
    graph: Graph
    values: str
    base: Evaluated
    bugs: dict[str, Bug] = field(default_factory=dict)  # known bugs of the parts that fail
    explained: set[int] = field(default_factory=set)  # operators of those parts
    parts: list[ProgramGraph] = field(default_factory=list)  # the failing parts themselves

    def nodes_of(self, part: ProgramGraph) -> set[int]:
        producers = self.base.graph.producers
        return {producers[number] for node in part.nodes for number in node.outputs}

    def may_fail_by(self, part: Screened) -> bool:
        """True if a failing part may cause the failure of the whole. A wrong result may cause any other, but reduced
        precision does not cause a plainly wrong result; an error or a crash must be the same."""
        whole = self.failing
        if whole.kind not in VALUE_KINDS:
            return (part.kind, part.evidence.message) == (whole.kind, whole.evidence.message)
        return part.kind in VALUE_KINDS and (bool(whole.evidence.policies) or not part.evidence.policies)

    def follows(self, parts: PartScreening) -> bool:
        """True if the failure of the whole follows from the failing parts alone. Fusing the parts may make something
        else wrong."""
        if self.failing.kind not in VALUE_KINDS:
            return True
        values = load_samples(self.values)[0]
        return follows(parts, self.failing, self.graph, self.base, values, self.parts)

    def rest(self) -> ProgramGraph | None:
        """Return the program without its failing parts, fed with the right results of these; None if no operator is
        left."""
        left = set(range(len(self.base.graph.nodes))) - self.explained
        kept = keep(self.base, left, OPEN) if left else None
        return kept[0] if kept else None


class Matching:
    """Matches the suspects of one target against its bugs, with `jobs` workers at a time."""

    def __init__(self, triage: Triage, target: Target, form: str, options: CheckOptions, jobs: int = 1) -> None:
        self._triage = triage
        self._options = options
        self._target = target
        self._form = form
        self._jobs = jobs
        self._known = {operators_named_in(detail) for detail in triage.known_details(target)}
        self._known |= triage.forms.operators(target.backend)

    def settled(self, suspects: Sequence[Suspect]) -> Iterator[tuple[Suspect, ExaminedSuspect]]:
        """Yield the suspects that could be settled, with their results."""
        options = self._options
        for at in range(0, len(suspects), AT_ONCE):
            batch = suspects[at : at + AT_ONCE]
            with Screening(
                self._triage.pool,
                self._form,
                seed=options.seed,
                plugins=options.plugins,
                timeout=options.timeout,
                shards=self._jobs,
            ) as screening:
                parts = PartScreening(screening, self._target, options)
                wholes = parts.screen([decode(ProgramRequest, suspect.body.request) for suspect in batch])
                for place, bugs in self._bugs_that_explain(wholes, parts).items():
                    yield batch[place], ExaminedSuspect("bug", tuple((bug, False) for bug in bugs))
                for suspect, whole in zip(batch, wholes, strict=True):
                    if whole.judgement in ("pass", "rejected"):
                        reason = f"run again, it is {whole.judgement}: {whole.reason}"
                        yield suspect, ExaminedSuspect("gone", reason=reason)

    def _bugs_that_explain(self, wholes: Sequence[Screened], parts: PartScreening) -> dict[int, list[Bug]]:
        """Return, by index, the known bugs of the programs that fail for no other reason."""
        found: dict[int, list[Bug]] = {}
        to_cut: list[_Whole] = []
        for place, failing in enumerate(wholes):
            if failing.judgement != "fail" or not failing.made:
                continue
            if known := self._known_itself(failing, parts):
                found[place] = [known]
            elif cut := self._to_cut(place, failing, parts):
                to_cut.append(cut)
        plainest = PlainestForm(parts, LANGUAGE[self._form], time.monotonic() + _PATIENCE)
        for size in range(1, LARGEST + 1):  # a larger part may fail because of a smaller part of it
            asked = [(whole, part) for whole in to_cut for part in self._parts_to_ask(whole, size)]
            requests = [_on_values(parts, whole, part) for whole, part in asked]
            for (whole, part), answer in zip(asked, parts.screen(requests), strict=True):
                fails = answer.judgement == "fail" and whole.may_fail_by(answer)
                if fails and (bug := self._known_bug(answer, parts, plainest)):
                    whole.bugs[bug.id] = bug
                    whole.explained |= whole.nodes_of(part)
                    whole.parts.append(part)
        found |= self._those_with_a_sound_rest([whole for whole in to_cut if whole.bugs], parts)
        return found

    def _those_with_a_sound_rest(self, wholes: Sequence[_Whole], parts: PartScreening) -> dict[int, list[Bug]]:
        rests = [(whole, whole.rest()) for whole in wholes]
        asked = [_on_values(parts, whole, rest) for whole, rest in rests if rest]
        answers = iter(parts.screen(asked))
        sound = [whole for whole, rest in rests if rest is None or next(answers).judgement == "pass"]
        return {whole.place: list(whole.bugs.values()) for whole in sound if whole.follows(parts)}

    def _to_cut(self, place: int, whole: Screened, parts: PartScreening) -> _Whole | None:
        """Return a program with its values if it has all operators of a known bug, else None."""
        graph = parts.graph_as_it_failed(whole)
        if graph is None or not any(known <= spelled_alike(operators_in(whole)) for known in self._known):
            return None
        values = parts.values(whole, graph)
        return _Whole(place, whole, graph, values, read_generated(graph)) if values else None

    def _parts_to_ask(self, whole: _Whole, size: int) -> Iterator[ProgramGraph]:
        """Yield the parts that have the operators of a known bug and do not overlap with failing parts."""
        for part in parts_of(whole.base, size) if size <= len(whole.graph.nodes) else ():
            written = write_generated(part, whole.graph)
            if spelled_alike(operators_named(written)) in self._known and not whole.nodes_of(part) & whole.explained:
                yield part

    def _known_bug(self, part: Screened, parts: PartScreening, plainest: PlainestForm) -> Bug | None:
        if known := self._known_itself(part, parts):
            return known
        plain = plainest.of(part)
        known = self._known_itself(plain, parts)
        return known or self._triage.known_form(self._target, plain, parts.needed_settings(plain))

    def _known_itself(self, failing: Screened, parts: PartScreening) -> Bug | None:
        """Return the known bug with the name, or the error, of a program or part; None if there is none."""
        if known := self._triage.known_error(self._target, failing):
            return known
        return self._triage.known_value(self._target, failing, parts.needed_settings(failing), least=1)


def _on_values(parts: PartScreening, whole: _Whole, part: ProgramGraph) -> ProgramRequest:
    written = write_generated(part, whole.graph)
    return parts.on_values(written, whole.values, [leaf.number for leaf in part.leaves])
