"""Suspects that nobody has time for, held against the bugs that are known already: many at a time, in few jobs.

A suspect is settled by this when it passes or is rejected now, or when a part of it fails as a known bug does: the same
operators, the same kind, the same class of dtype. What is left may be new, and stays unexamined.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from driftline.campaign.part_screening import PartScreening
from driftline.campaign.smallest_parts import SmallestParts
from driftline.campaign.triage import ExaminedSuspect, Triage, operators_in
from driftline.checking.batch import Screened, Screening
from driftline.checking.batch_requests import ProgramRequest
from driftline.core.case import CheckOptions
from driftline.core.identity import operators_named_in
from driftline.core.spelling import spelled_alike
from driftline.core.target import Target
from driftline.core.wire import decode
from driftline.diagnose.reduce.generated import read_generated, write_generated
from driftline.diagnose.reduce.small_parts import parts_of
from driftline.generate.blueprint import LANGUAGE
from driftline.generate.naming import operators_named
from driftline.store import Bug
from driftline.store.hunts import Suspect

AT_ONCE = 24  # suspects of one batch
LARGEST = 2  # operators of a part that is asked about
_PATIENCE = 20.0  # seconds, for making the failing parts of a batch plain


class Matching:
    """Holds suspects of one target against its bugs."""

    def __init__(self, triage: Triage, target: Target, form: str, options: CheckOptions) -> None:
        self._triage = triage
        self._options = options
        self._target = target
        self._form = form
        self._known = {operators_named_in(detail) for detail in triage.known_details(target)}

    def settled(self, suspects: Sequence[Suspect]) -> Iterator[tuple[Suspect, ExaminedSuspect]]:
        """Those of the suspects about which something is known now."""
        options = self._options
        for at in range(0, len(suspects), AT_ONCE):
            batch = suspects[at : at + AT_ONCE]
            with Screening(
                self._triage.pool, self._form, seed=options.seed, plugins=options.plugins, timeout=options.timeout
            ) as screening:
                parts = PartScreening(screening, self._target, options)
                wholes = parts.screen([decode(ProgramRequest, suspect.body.request) for suspect in batch])
                for place, bugs in self._bugs_in(wholes, parts).items():
                    yield batch[place], ExaminedSuspect("bug", tuple((bug, False) for bug in bugs))
                for suspect, whole in zip(batch, wholes, strict=True):
                    if whole.judgement in ("pass", "rejected"):
                        reason = f"run again, it is {whole.judgement}: {whole.reason}"
                        yield suspect, ExaminedSuspect("gone", reason=reason)

    def _bugs_in(self, wholes: Sequence[Screened], parts: PartScreening) -> dict[int, list[Bug]]:
        """The known bugs that programs hold, by their places."""
        found: dict[int, list[Bug]] = {}
        requests: list[ProgramRequest] = []
        places: list[int] = []
        for place, whole in enumerate(wholes):
            if whole.judgement != "fail" or not whole.made:
                continue
            if known := self._triage.known_error(self._target, whole) or self._triage.known_value(
                self._target, whole, least=1
            ):
                found[place] = [known]
                continue
            asked = list(self._parts_to_ask(whole, parts))
            requests += asked
            places += [place] * len(asked)
        smallest = SmallestParts(parts, LANGUAGE[self._form], time.monotonic() + _PATIENCE)
        for place, part in zip(places, parts.screen(requests), strict=True):
            if part.judgement == "fail" and (bug := self._known_bug(part, smallest)):
                known_here = found.setdefault(place, [])
                if bug.id not in [other.id for other in known_here]:
                    known_here.append(bug)
        return found

    def _parts_to_ask(self, whole: Screened, parts: PartScreening) -> Iterator[ProgramRequest]:
        """The small parts of a program whose operators are those of a known bug, on the values that it computed."""
        graph = parts.graph_as_it_failed(whole)
        if graph is None or not any(known <= spelled_alike(operators_in(whole)) for known in self._known):
            return
        values = parts.values(whole, graph)
        base = read_generated(graph)
        for size in range(1, min(LARGEST, len(graph.nodes)) + 1) if values else ():
            for part in parts_of(base, size):
                written = write_generated(part, graph)
                if spelled_alike(operators_named(written)) in self._known:
                    assert values
                    yield parts.on_values(written, values, [leaf.number for leaf in part.leaves])

    def _known_bug(self, part: Screened, smallest: SmallestParts) -> Bug | None:
        known = self._triage.known_error(self._target, part) or self._triage.known_value(self._target, part, least=1)
        return known or self._triage.known_value(self._target, smallest.canonical(part), least=1)
