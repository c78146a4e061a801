"""View a program layer by layer: match values, look at the ends of blocks, then inside the first bad block, then at
each layer alone.

Returning intermediate values changes what a compiler fuses. So the ends of blocks come first, which leaves most fusions
intact, and the program's own results are compared with the run without taps; a difference is reported.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from driftline.checking.checker import Checker, TargetResult
from driftline.checking.deployed import as_run
from driftline.core.announce import Announce
from driftline.core.case import Case
from driftline.core.execution import Outcome
from driftline.core.tensors import Array, spec_of
from driftline.diagnose.layers.choose import MOST, chunks, ends_of_blocks, thinned
from driftline.diagnose.layers.inside import NoView, look_into
from driftline.diagnose.layers.match import Pair, matched, same_program
from driftline.diagnose.layers.measure import Errors, measure_all
from driftline.diagnose.layers.result import Layer, View
from driftline.diagnose.layers.tapping import Seen, Tapping
from driftline.oracle.judge import Reference
from driftline.programs.taps.tap import Tap

AUTO, BLOCKS, ALL = "auto", "blocks", "all"
TAPS = (AUTO, BLOCKS, ALL)
FEW = 48  # up to this many values, all are looked at, unless only the ends of blocks are requested
REGION = 120  # values inside a block
LARGEST_CUT = 16_000_000  # elements of values that a block is fed with
LARGEST_RESULT = 4_000_000  # elements of results for which noise is computed


def look_at(
    checker: Checker,
    case: Case,
    row: TargetResult,
    reference: Reference,
    *,
    taps: str = AUTO,
    listener: Announce = lambda words: None,
) -> View:
    """Return the view of one target that ran the case. If no view is possible, its note says why."""
    began = time.monotonic()
    view = View(
        target=str(row.target),
        program=case.runs.name,
        reference=case.program.name if case.deployed else "",
        verdict=str(row.verdict.judgement),
    )
    if row.execution.outcome is not Outcome.OK or not row.execution.outputs:
        return replace(view, note=f"There is no view: {row.target} returned nothing to look at ({row.verdict.reason}).")
    try:
        view = _LayersRun(checker, case, row, reference, view, listener).run(taps)
    except NoView as reason:
        view = replace(view, note=f"There is no view: {reason}.")
    return replace(view, seconds=time.monotonic() - began)


class _LayersRun:
    def __init__(
        self, checker: Checker, case: Case, row: TargetResult, reference: Reference, view: View, listener: Announce
    ) -> None:
        self._checker, self._row, self._view, self._say = checker, row, view, listener
        at = row.verdict.evidence.sample or 0
        self._at = at if at < len(row.execution.outputs) else 0
        self._sample = reference.samples[self._at]
        self._reference = replace(reference, samples=(self._sample,))
        self._case = replace(case, samples=(case.samples[self._at],))
        self._layers: dict[str, Layer] = {}

    def run(self, taps: str) -> View:
        self._say("finding the values along the graph")
        mine = replace(self._case, deployed=None)
        inside = running = look_into(self._checker, mine)
        how = ""
        if self._case.deployed:
            running = look_into(self._checker, as_run(self._case, self._case.deployed))
            pairs, how = matched(inside.taps, running.taps)
        else:
            pairs = same_program(inside.taps)
        self._pairs = pairs
        self._ends = {pair.number for pair in ends_of_blocks(pairs)} if pairs else set()
        passes = self._view.verdict == "pass"
        self._tapping = Tapping(self._checker, inside, running, self._row.target, quanta=passes)
        self._end = sum(not tap.returned for tap in inside.taps)
        self._view = replace(self._view, values=self._end, matched=how)
        self._add_results()
        if not pairs:
            raise NoView("the two programs have no value in common" if how else "no value along the graph can be seen")
        self._look(taps)
        self._drop_mismatched()
        region = self._region() if self._suspicious() else []
        inner = thinned([p for p in region if p.tap.value not in self._layers], REGION)
        if inner and taps != BLOCKS:
            self._look_at(inner)
            self._drop_mismatched()
            region = self._region()
        if region:
            self._look_apart(thinned(region, REGION))
        return self._told()

    def _look(self, taps: str) -> None:
        ends = [pair for pair in self._pairs if pair.number in self._ends]
        everything = taps == ALL or (taps == AUTO and len(self._pairs) <= FEW)
        self._view = replace(self._view, taps=ALL if everything else BLOCKS)
        self._look_at(thinned(self._pairs, MOST) if everything else ends)
        gone = self._view.verdict == "fail" and not any(la.beyond for la in self._layers.values() if not la.output)
        if gone and taps == AUTO and everything and len(ends) < len(self._pairs):
            # The failure goes away when every value is looked at: fewer taps leave more of the fusions alone.
            self._view = replace(self._view, taps=BLOCKS)
            self._layers = {name: layer for name, layer in self._layers.items() if layer.output}
            self._look_at(ends)

    def _look_at(self, pairs: Sequence[Pair]) -> None:
        self._view = replace(self._view, observer="")
        done = 0
        for chunk in chunks(pairs):
            self._say(f"looking at values {done + 1} to {done + len(chunk)} of {len(pairs)}")
            seen = self._tapping.look(chunk)
            for pair, errors, shape in zip(chunk, seen.errors, seen.shapes, strict=True):
                self._layers[pair.tap.value] = self._layer(pair, errors, shape)
            self._observe(seen)
            done += len(chunk)

    def _layer(self, pair: Pair, errors: Errors, shape: tuple[int, ...]) -> Layer:
        tap = replace(pair.tap, scope=pair.tap.scope or pair.run.scope, shape=shape)
        other = pair.run.value if pair.run.value != tap.value else ""
        return Layer(pair.number, tap, errors, end=pair.number in self._ends, runs_as=other)

    def _add_results(self) -> None:
        """Add the program's own results, from the run without taps."""
        native = {n: a for n, a in self._sample.native.items() if not n.startswith(("mutated:", "grad:"))}
        got = self._named(list(self._row.execution.outputs[self._at].values()), native)
        shadow = self._sample.shadow
        ask = shadow if shadow and sum(a.size for a in native.values()) <= LARGEST_RESULT else None
        # The check has computed the same answer, so it is cached.
        found = measure_all(
            got,
            native,
            (lambda arithmetic, runs, _: ask(arithmetic, runs, None)) if ask else None,
            self._tapping.arithmetic,
        )
        for place, (name, array) in enumerate(native.items()):
            spec = spec_of(name, array)
            tap = Tap(name, len(self._pairs) + place, "", "", "", spec.dtype, spec.shape)
            number = self._end + place
            self._layers[f"result {name}"] = Layer(number, tap, found[name], output=True, end=True)

    def _named(self, values: Sequence[Array], native: dict[str, Array]) -> dict[str, Array]:
        own = self._row.execution.outputs[self._at]
        return {n: own[n] for n in native} if set(native) <= set(own) else dict(zip(native, values, strict=False))

    def _observe(self, seen: Seen) -> None:
        """Note it if the target computes other results with taps, even if only in the last bit."""
        plain = [a for n, a in self._row.execution.outputs[self._at].items() if not n.startswith(("mutated:", "grad:"))]
        same = all(any(_equal(array, other) for other in seen.results) for array in plain)
        if same or self._view.observer or not seen.results:
            return
        told = (
            "With taps the target computes other values, if only in the last bits: what is fused is not the same, and"
            " the view shows the computation with taps."
        )
        judged = self._judged(seen.results)
        if judged and judged != self._view.verdict:
            told += f" With taps the program's verdict is {judged}, without them it is {self._view.verdict}."
        self._view = replace(self._view, observer=told)

    def _judged(self, results: Sequence[Array]) -> str:
        names = [name for name in self._sample.native if not name.startswith("mutated:")]
        if self._case.deployed or len(names) != len(results):
            return ""
        execution = replace(self._row.execution, outputs=(dict(zip(names, results, strict=True)),))
        return str(self._checker.judge(self._case, self._row.target, execution, self._reference).judgement)

    def _suspicious(self) -> bool:
        return any(layer.beyond for layer in self._layers.values())

    def _region(self) -> list[Pair]:
        """Return the values of the block in which an error first leaves the band."""
        first = min((layer.number for layer in self._layers.values() if layer.beyond), default=None)
        if first is None:
            return []
        ends = sorted(self._ends)
        end = min((number for number in ends if number >= first), default=self._end)
        before = [number for number in ends if number < first]
        if end == self._end and before and before[-1] == self._pairs[-1].number:
            before.pop()  # a result is bad right behind the last block: that is the one to look at
        begin = before[-1] if before else -1
        return [pair for pair in self._pairs if begin < pair.number <= end]

    def _look_apart(self, region: Sequence[Pair]) -> None:
        """Run each layer of the block alone, on the values that the reference has there."""
        begin = [pair for pair in self._pairs if pair.number < region[0].number][-1:]
        fed = [*begin, *region]
        if sum(pair.tap.size or 0 for pair in fed) > LARGEST_CUT:
            note = "The first bad block is too large to be run layer by layer on the values of the reference."
            self._view = replace(self._view, note=note)
            return
        self._say(f"running {len(region)} layers by themselves")
        last = all(layer.output for layer in self._layers.values() if layer.beyond)
        try:
            seen = self._tapping.look(region, self._tapping.values(fed), results=last)
        except NoView as reason:
            self._view = replace(self._view, note=f"Layers could not be run by themselves: {reason}.")
            return
        for pair, errors in zip(region, seen.errors, strict=True):
            known = self._layers.get(pair.tap.value)
            if known:
                self._layers[pair.tap.value] = replace(known, own=errors)
        results = [name for name, layer in self._layers.items() if layer.output]
        for name, errors in zip(results, seen.of_results, strict=False):
            self._layers[name] = replace(self._layers[name], own=errors)

    def _drop_mismatched(self) -> None:
        """Drop pairs that differ although the results agree, if they were not matched by name: they are not the same
        value. For pairs matched only by position, it is enough that a later value agrees.
        """
        unsure = {pair.tap.value for pair in self._pairs if not pair.surely}
        if "shape" not in self._view.matched and any(la.beyond for la in self._layers.values() if la.output):
            return
        ordered = sorted(self._layers.items(), key=lambda item: item[1].number)
        dropped = [
            name
            for at, (name, layer) in enumerate(ordered)
            if name in unsure and layer.beyond and any(not la.beyond and la.errors.sigma for _, la in ordered[at + 1 :])
        ]
        for name in dropped:
            del self._layers[name]
        self._pairs = [pair for pair in self._pairs if pair.tap.value not in dropped]

    def _told(self) -> View:
        layers = tuple(sorted(self._layers.values(), key=lambda layer: layer.number))
        looked = sum(not layer.output for layer in layers)
        return replace(self._view, layers=layers, left_out=self._view.values - looked)


def _equal(one: Array, other: Array) -> bool:
    if one.shape != other.shape:
        return False
    return one.tobytes() == other.astype(one.dtype, copy=False).tobytes()
