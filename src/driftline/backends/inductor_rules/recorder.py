"""Records which rules do something while a program is compiled, and forbids given ones.

Inductor calls a rule's extra check only after its pattern matched, and `apply` only after the check agreed. Many
handlers then change nothing, so a rule counts as fired only if the graph differs afterwards.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch._inductor.pattern_matcher as pm
import torch.fx as fx

from driftline.backends.inductor_rules.outside import watch
from driftline.backends.inductor_rules.registry import registered

_FILE = re.compile(r'File "([^"]+)", line')


@dataclass
class RuleActivity:
    """Counts of what one rule did."""

    matched: int = 0
    agreed: int = 0
    applied: int = 0
    changed: int = 0
    error: str = ""  # the exception of its check or handler
    files: set[str] = field(default_factory=set)  # whose code it rewrote


class RuleRecorder:
    """Counts the activity of rules while its `recording` block runs. One per process: it wraps Inductor's classes."""

    def __init__(self) -> None:
        # An entry may be in two tables: the table that is being applied decides which rule it is.
        self._ids = {(id(each.table), id(each.entry)): each.rule.id for each in registered()}
        self._tables: list[int] = []
        self._copies: dict[int, int] = {}
        self._activity: dict[str, RuleActivity] = {}
        self._forbidden: frozenset[str] = frozenset()
        self._listening = False
        self._thorough = True
        for entry in {id(each.entry): each.entry for each in registered()}.values():
            entry.extra_check = self._watched_check(entry, entry.extra_check)
        pm.PatternMatcherPass.apply = self._watched_table(pm.PatternMatcherPass.apply)
        for kind in (pm.LoweringPatternEntry, pm.GraphPatternEntry, pm.ReplacementPatternEntry):
            kind.apply = self._watched_apply(kind.apply)
        watch(self, lambda graph: signature(graph) if self._listening and self._thorough else None)

    def forbids(self, rule_id: str) -> bool:
        return self._listening and rule_id in self._forbidden

    def note(self, rule_id: str, changed: bool) -> None:
        """Count a rewrite outside the tables, and whether it changed the graph."""
        if self._listening:
            activity = self._of(rule_id)
            activity.matched += 1
            activity.changed += changed

    @contextlib.contextmanager
    def recording(
        self, forbidden: frozenset[str] = frozenset(), *, thorough: bool = True
    ) -> Iterator[dict[str, RuleActivity]]:
        """Yield the activity of each rule inside the block; `forbidden` rules never match there. Without `thorough`
        only table rules are watched, and only the neighbourhood of each match is compared, which keeps large graphs
        fast."""
        before = self._activity, self._forbidden, self._listening, self._thorough
        self._activity, self._forbidden, self._listening, self._thorough = {}, forbidden, True, thorough
        try:
            yield self._activity
        finally:
            self._activity, self._forbidden, self._listening, self._thorough = before

    def _of(self, rule_id: str) -> RuleActivity:
        return self._activity.setdefault(rule_id, RuleActivity())

    def adopt(self, table: Any, like: Any) -> None:
        """Count the rules copied into `table` as rules of the table `like`."""
        self._copies[id(table)] = id(like)

    def _rule(self, entry: Any) -> str | None:
        if not self._tables or not self._listening:
            return None
        table = self._tables[-1]
        return self._ids.get((self._copies.get(table, table), id(entry)))

    def _watched_table(self, apply: Any) -> Any:
        def watched(table: Any, graph: Any) -> Any:
            self._tables.append(id(table))
            try:
                return apply(table, graph)
            finally:
                self._tables.pop()

        return watched

    def _watched_check(self, entry: Any, check: Any) -> Any:
        def watched(match: Any) -> Any:
            rule_id = self._rule(entry)
            if rule_id is None:
                return check(match)
            if self.forbids(rule_id):
                return False
            activity = self._of(rule_id)
            activity.matched += 1
            try:
                answer = check(match)
            except Exception as error:
                activity.error = f"{type(error).__name__}: {error}"
                raise
            activity.agreed += answer is not False
            return answer

        return watched

    def _watched_apply(self, apply: Any) -> Any:
        def watched(entry: Any, match: Any, graph: fx.Graph, node: fx.Node) -> Any:
            rule_id = self._rule(entry)
            if rule_id is None:
                return apply(entry, match, graph, node)
            activity = self._of(rule_id)
            look = partial(signature, graph) if self._thorough else _surroundings(graph, match.nodes)
            before, files = look(), _files(match.nodes)
            try:
                result = apply(entry, match, graph, node)
            except Exception as error:
                activity.error = f"{type(error).__name__}: {error}"
                raise
            activity.applied += 1
            if look() != before:
                activity.changed += 1
                activity.files |= files
            return result

        return watched


def _files(nodes: Sequence[fx.Node]) -> set[str]:
    """Return the source files of the lines that the nodes come from."""
    lines = (_FILE.findall(node.meta.get("stack_trace") or "") for node in nodes)
    return {found[-1] for found in lines if found}


def _surroundings(graph: fx.Graph, matched: Sequence[fx.Node]) -> Callable[[], object]:
    """Return a function that describes the matched nodes and their neighbours, to be compared before and after."""
    near = dict.fromkeys(matched)
    for node in matched:
        near |= dict.fromkeys([*node.all_input_nodes, *node.users])
    return lambda: (len(graph.nodes), [(node._erased, *_identity(node)) for node in near])


def _identity(node: fx.Node) -> tuple[str, str, str, str]:
    return node.op, str(node.target), str(node.args), str(node.kwargs)


def signature(graph: fx.Graph) -> tuple[tuple[str, str, str, str], ...]:
    """Return everything that identifies a graph, for comparison."""
    return tuple(map(_identity, graph.nodes))


_RECORDER: list[RuleRecorder] = []


def recorder() -> RuleRecorder:
    """Return the recorder of this process."""
    if not _RECORDER:
        _RECORDER.append(RuleRecorder())
    return _RECORDER[0]
