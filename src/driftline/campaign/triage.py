"""From a suspect to a bug: the smallest part of the program that still fails is checked by itself and recorded.

Everything that is reported went through the ordinary `check`, in a fresh process, on a program that stands alone. The
part names the cause as far as it is known: three programs that fail because of one operator are one bug.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftline.campaign.session import identify, record
from driftline.checking.batch import Screened, Screening, case_of, native_of
from driftline.checking.checker import Checker, TargetResult
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import InternalError
from driftline.core.target import Target
from driftline.core.tensors import numpy_dtype
from driftline.core.verdict import Judgement, Kind
from driftline.diagnose.fingerprint import message_fingerprint
from driftline.execute.tasks import save_samples
from driftline.generate.blueprint import LANGUAGE
from driftline.generate.graph import Graph
from driftline.generate.mutate import retyped
from driftline.generate.parts import Part, cut, everything_returned, named, passing_through, pattern, plainer, windows
from driftline.generate.random_graph import GROWTH, resized
from driftline.generate.table import OPERATORS
from driftline.oracle.judge import Reference
from driftline.store import Bug, Store
from driftline.store.hunts import Suspect

_VALUE_KINDS = (Kind.WRONG_VALUE, Kind.BIAS, Kind.WRONG_NONFINITE, Kind.WRONG_SHAPE, Kind.WRONG_DTYPE)
OTHER_INPUTS = 4
PATIENCE = 120.0  # seconds for one suspect


@dataclass(frozen=True)
class Examined:
    """What became of a suspect: `bug`, `gone` (it does not fail alone), `flaky`, `disputed` (our own references
    disagree) or `unclear`."""

    state: str
    bugs: tuple[tuple[Bug, bool], ...] = ()  # with: is it new?
    reason: str = ""


class Triage:
    """Examines the suspects of one hunt. `peers` gives the other targets of a form, who are asked about a new bug: all
    of them when a witness is needed, else those that are running already."""

    def __init__(
        self, checker: Checker, store: Store, options: CheckOptions, peers: Callable[[str, bool], Sequence[Target]]
    ) -> None:
        self._checker = checker
        self._store = store
        self._options = options
        self._peers = peers

    def examine(self, suspect: Suspect, target: Target, form: str) -> Examined:
        body = suspect.body
        self._deadline = time.monotonic() + PATIENCE
        plugins = self._options.plugins
        timeout = self._options.timeout
        with Screening(self._checker.pool, form, seed=body["seed"], plugins=plugins, timeout=timeout) as screening:
            whole = screening.screen([body["request"]], target, body["avoid"])[0]
            if whole.judgement == "fail" and whole.kind == "error":
                seen = message_fingerprint(target.backend, whole.stage, whole.kind, whole.reason)
                if self._store.has_bug(seen.bug_id):
                    return Examined("bug", ((self._store.bug(seen.bug_id), False),))
            if whole.judgement != "fail" or not whole.made:
                return Examined("gone", reason=f"alone it is {whole.judgement}: {whole.reason}")
            parts = self._smallest(screening, whole, target)
            found: dict[str, tuple[Bug, bool]] = {}
            flaky, dispute = False, ""
            for part in (self._canonical(screening, part, target, form) for part in parts):
                case = self._case(part, target)
                checked = self._check(case)
                if checked is None or checked[0].verdict.judgement is not Judgement.FAIL:
                    continue
                result, reference = checked
                new = not self._store.has_bug(identify(case, result).bug_id)
                others = dict(self._asked(screening, part, target, form)) if new else {}
                doubt = self._disputed(screening, part, result, others, form)
                if doubt:
                    dispute = doubt
                    continue
                flaky |= result.flaky
                more: dict[str, Any] = {}
                if new:
                    more = {"others": others, "other_inputs": self._elsewhere(screening, part, target)}
                bug = record(self._store, case, result, reference, more)
                assert bug
                if bug.id not in found or new:
                    found[bug.id] = (bug, new)
            if not found and dispute:
                return Examined("disputed", reason=dispute)
            if not found:
                return Examined("unclear", reason="it fails among others, and not when it is checked by itself")
            return Examined("flaky" if flaky and len(found) == 1 else "bug", tuple(found.values()))

    # -- the smallest part -------------------------------------------------------------------------------------------

    def _smallest(self, screening: Screening, whole: Screened, target: Target) -> list[Screened]:
        """The parts to report: each operator that fails alone, or the smallest set of nodes that fails together."""
        assert whole.made
        if not whole.made["graph"]:
            return [whole]
        graph = Graph.from_json(whole.made["graph"])
        if graph.varying:  # parts are cut at the size at which it failed
            shapes = [
                array.shape
                for array in case_of(whole.made, target, self._options, [whole.sample]).samples[0].arrays.values()
            ]
            if shapes != [graph.leaves[number].type.shape for number in graph.inputs]:
                graph = resized(graph, graph.varying, graph.varying + GROWTH) or graph
            graph = replace(graph, varying=0)
        values = self._values(screening, whole, graph)
        if values is None:
            return [whole]
        seeker = _Seeker(screening, target, graph, values)
        crude = seeker.failing(passing_through(graph))
        if crude:
            return _by_pattern(crude)
        for size in (1, 2, 3):
            if size >= len(graph.nodes) or time.monotonic() > self._deadline:
                break
            failing = seeker.failing(windows(graph, size))
            if failing:
                return _by_pattern(failing)[:4]
        return [self._peeled(seeker, whole, graph)]

    def _values(self, screening: Screening, whole: Screened, graph: Graph) -> str | None:
        """What every value of the graph is on the failing sample, in a file; `None` when it cannot be found out."""
        assert whole.made
        inputs = screening.folder / "whole.inputs"
        case = case_of(whole.made, Target("eager"), self._options, [whole.sample])
        save_samples(inputs, [case.samples[0].arrays])
        request = {**_PART, "graph": everything_returned(graph).to_json(), "inputs": str(inputs)}
        answer = screening.prepare([request])[0]
        if "native" not in answer:
            return None
        results = [array for name, array in native_of(answer)[0].items() if not name.startswith("mutated:")]
        arrays = {}
        given = dict(case.samples[0].arrays)
        for number, leaf in zip(graph.inputs, given, strict=True):
            arrays[str(number)] = given[leaf]
        first = len(graph.leaves)
        if len(results) != len(graph.types()) - first:
            return None
        arrays |= {str(first + at): array for at, array in enumerate(results)}
        path = screening.folder / "whole.values"
        save_samples(path, [arrays])
        return str(path)

    def _peeled(self, seeker: _Seeker, whole: Screened, graph: Graph) -> Screened:
        """No small window fails: take nodes away one at a time, as long as it goes on failing."""
        best, kept = whole, list(range(len(graph.nodes)))
        while len(kept) > 2 and time.monotonic() < self._deadline:
            smaller = [[node for node in kept if node != left] for left in kept]
            failing = seeker.failing([cut(graph, nodes) for nodes in smaller], first=True)
            if not failing:
                break
            best = failing[0]
            kept = list(best.request["nodes"])
        return best

    def _canonical(self, screening: Screening, part: Screened, target: Target, form: str) -> Screened:
        """The part in the plainest dtype in which it still fails in the same way."""
        for _ in range(2):  # once for floats, once for integers
            if not part.made or not part.made["graph"] or time.monotonic() > self._deadline:
                return part
            options: list[dict[str, Any]] = []
            for changed, old, new in plainer(replace(Graph.from_json(part.made["graph"]), varying=0)):
                graph = retyped(changed, LANGUAGE[form])
                if graph is not None:
                    options.append(self._recast(screening, part, graph, old, new, len(options)))
            results = screening.screen(options, target) if options else []
            plain = next((r for r in results if r.judgement == "fail" and r.kind == part.kind), None)
            if plain is None:
                return part
            part = plain
        return part

    def _recast(
        self, screening: Screening, part: Screened, graph: Graph, old: str, new: str, number: int
    ) -> dict[str, Any]:
        assert part.made
        arrays = case_of(part.made, Target("eager"), self._options, [part.sample]).samples[0].arrays
        with np.errstate(all="ignore"):
            cast = {n: a.astype(numpy_dtype(new)) if a.dtype.name == old else a for n, a in arrays.items()}
        path = screening.folder / f"recast{number}.inputs"
        save_samples(path, [cast])
        return {**_PART, "graph": graph.to_json(), "inputs": str(path)}

    # -- checking and recording --------------------------------------------------------------------------------------

    def _case(self, part: Screened, target: Target) -> Case:
        assert part.made
        varying = bool(part.made["graph"] and part.made["graph"]["varying"])
        case = case_of(part.made, target, self._options, [] if varying else [part.sample])
        words = pattern(Graph.from_json(part.made["graph"])) if part.made["graph"] else named(part.coverage)
        return replace(case, program=replace(case.program, operators=(words,)))

    def _check(self, case: Case) -> tuple[TargetResult, Reference] | None:
        outcome = self._checker.check(case)
        if not outcome.results:
            return None
        result = outcome.results[0]
        if result.internal_error:
            raise InternalError(result.internal_error)
        return result, outcome.reference

    def _disputed(
        self, screening: Screening, part: Screened, result: TargetResult, others: Mapping[str, str], form: str
    ) -> str:
        """Is our reference itself in doubt? The reason, or nothing.

        torch programs mean what torch does. The reference of other programs is somebody's implementation too: a program
        from the operator table is played in torch as well, and for any other one a second compiler must agree with the
        reference. Otherwise nobody is accused.
        """
        if form == "torch" or result.verdict.kind not in _VALUE_KINDS:
            return ""
        if part.made and part.made["graph"]:
            contradiction = self._contradiction(screening, part)
            return f"torch and the {form} reference disagree: {contradiction}" if contradiction else ""
        kind = str(result.verdict.kind)
        supporters = sum(words.startswith("pass") for words in others.values())
        opponents = sum(words.startswith("fail") and kind in words for words in others.values())
        if others and supporters <= opponents:
            return f"{supporters} other compilers agree with the reference and {opponents} do not"
        return ""

    def _contradiction(self, screening: Screening, part: Screened) -> str:
        """What torch says to the same graph on the same inputs, where that is not what the reference says."""
        assert part.made
        graph = Graph.from_json(part.made["graph"])
        types = graph.types()
        if not all(OPERATORS[node.op].takes("torch", types[node.inputs[0]]) for node in graph.nodes):
            return ""
        again = self._again(screening, part)
        plugins = self._options.plugins
        played = {**_PART, "graph": replace(graph, grad=False, varying=0).to_json(), "inputs": again["inputs"]}
        with Screening(self._checker.pool, "torch", plugins=plugins, timeout=self._options.timeout) as second:
            answer = second.prepare([played])[0]
            outputs = native_of(answer) if "native" in answer else []
        mine = screening.prepare([again])[0]
        return screening.contradicts(mine, outputs) if outputs and "native" in mine else ""

    def _asked(self, screening: Screening, part: Screened, target: Target, form: str) -> Iterator[tuple[str, str]]:
        """What the other compilers say to the same program."""
        witness = form != "torch" and not (part.made and part.made["graph"])
        for peer in self._peers(form, witness):
            if str(peer) != str(target) and time.monotonic() < self._deadline:
                asked = screening.screen([self._again(screening, part)], peer)[0]
                yield str(peer), f"{asked.judgement}: {asked.kind or asked.reason[:80]}".strip(": ")

    def _elsewhere(self, screening: Screening, part: Screened, target: Target) -> list[int]:
        """On how many other inputs does it fail, of how many?"""
        request = {key: value for key, value in part.request.items() if key not in ("inputs", "values")}
        strategies = ["random", "specials"] * (OTHER_INPUTS // 2)
        requests = [{**request, "strategies": [name], "seed": f"elsewhere/{n}"} for n, name in enumerate(strategies)]
        results = screening.screen(requests, target, part.request.get("avoid", ()))
        judged = [result for result in results if result.judgement in ("pass", "fail")]
        return [sum(result.judgement == "fail" for result in judged), len(judged)]

    def _again(self, screening: Screening, part: Screened) -> dict[str, Any]:
        assert part.made
        path = screening.folder / "again.inputs"
        case = case_of(part.made, Target("eager"), self._options, [part.sample])
        save_samples(path, [case.samples[0].arrays])
        return {**part.request, "inputs": str(path), "strategies": [part.made["origins"][part.sample]]}


_PART: dict[str, Any] = {"generator": "part", "arm": "", "number": 0, "strategies": ["part"], "seed": ""}


class _Seeker:
    """Tries parts of one graph on one target."""

    def __init__(self, screening: Screening, target: Target, graph: Graph, values: str) -> None:
        self._screening = screening
        self._target = target
        self._graph = graph
        self._values = values

    def failing(self, parts: Sequence[Part] | Iterator[Part], first: bool = False) -> list[Screened]:
        """Those of the parts that fail."""
        requests = [self._request(part) for part in parts]
        results = self._screening.screen(requests, self._target) if requests else []
        failed = [result for result in results if result.judgement == "fail"]
        return failed[:1] if first else failed

    def _request(self, part: Part) -> dict[str, Any]:
        return {
            **_PART,
            "graph": part.graph.to_json(),
            "values": self._values,
            "sources": list(part.sources),
            "nodes": list(part.nodes),
        }


def _by_pattern(failing: Sequence[Screened]) -> list[Screened]:
    """One part for each pattern and kind."""
    found: dict[tuple[str, str], Screened] = {}
    for result in failing:
        assert result.made
        found.setdefault((result.kind, pattern(Graph.from_json(result.made["graph"]))), result)
    return list(found.values())
