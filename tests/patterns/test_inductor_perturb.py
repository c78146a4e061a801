"""Changes of what a rule leaves free: known bugs are found, repaired rules are left alone, sound ones too."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.fx as fx

from driftline.backends.inductor_rules.recorder import recorder
from driftline.backends.inductor_rules.registry import Registered, registered
from driftline.core.rule import Reach
from driftline.execute.pool import Pool
from driftline.patterns.inductor.compare import coarsest_dtype, difference
from driftline.patterns.inductor.draft import Draft, DraftLeaf, live
from driftline.patterns.inductor.fire import fire
from driftline.patterns.inductor.perturb import Mutant, mutants
from driftline.patterns.inductor.requests import (
    ANSWERS,
    LIST_RULES,
    SUSPECT,
    FiringProgram,
    ListRulesRequest,
    RuleSuspect,
    SuspectRequest,
    read_lines,
)
from driftline.patterns.inductor.suspect import suspects
from driftline.patterns.inductor_audit import worker_kind

ENOUGH = 500.0  # seconds, on a machine with other things to do


def _rule(name: str) -> Registered:
    recorder()
    return next(each for each in registered() if each.rule.name == name)


def _attempt(rule: Registered) -> int:
    if rule.search:
        return 0
    fired = fire(rule.rule.id, range(40))
    assert fired.reach is Reach.FIRED and fired.attempt is not None
    return fired.attempt


def _found(rule: Registered, attempt: int, label: str) -> list[RuleSuspect]:
    """The suspects that one change brings."""
    return list(suspects(rule.rule.id, attempt, 0, time.monotonic() + ENOUGH, only=label))


def _draft() -> Draft:
    graph = fx.Graph()
    x = graph.placeholder("x")
    ones = graph.call_function(torch.ones, ([4, 8],))
    summed = graph.call_method("cumsum", (ones, 1))
    graph.output(graph.call_function(torch.add, (summed, x)))
    for node, value in zip(graph.nodes, [torch.empty(4, 8)] * 4, strict=False):
        node.meta["val"] = value
    return Draft(graph, {"x": DraftLeaf((4, 8), torch.float32)})


# -- mutants -----------------------------------------------------------------------------------------------------------


def test_mutants_are_the_same_every_time_and_the_program_itself_is_first() -> None:
    first, second = ([(m.spot, m.draft.text()) for m in mutants(_draft(), 3)] for _ in range(2))
    assert first == second
    assert first[0] == ("nothing changed", _draft().text())


def test_every_idea_says_what_it_changed_and_where() -> None:
    labels = {mutant.label for mutant in mutants(_draft(), 0)}
    assert labels >= {
        "argument dim of cumsum", "keyword dtype of cumsum", "keyword alpha of add", "one tensor of another dtype",
        "a size of one in one tensor", "extra user of cumsum", "symbolic sizes", "training", "some NaN in one tensor",
        "transposed memory", "operands of add swapped", "number for other of add",
    }  # fmt: skip


def test_a_mutant_leaves_the_draft_as_it_was() -> None:
    draft = _draft()
    before = draft.text()
    texts = {mutant.draft.text() for mutant in mutants(draft, 0)}
    assert draft.text() == before and len(texts) > 30


def test_most_mutants_run() -> None:
    def runs(mutant: Mutant) -> bool:
        try:
            model, inputs = live(mutant.draft.text())
            model(*inputs)
        except Exception:
            return False
        return True

    outcomes = [runs(mutant) for mutant in mutants(_draft(), 0)]
    assert sum(outcomes) > len(outcomes) / 2


def test_an_infinite_number_can_be_changed_too() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_method("masked_fill", (x, x, float("-inf"))))
    for node in graph.nodes:
        node.meta["val"] = torch.empty(4, dtype=torch.bool)
    labels = {mutant.label for mutant in mutants(Draft(graph, {"x": DraftLeaf((4,), torch.bool)}), 0)}
    assert {"argument value of masked_fill", "tensor without dimensions for value of masked_fill"} <= labels


def test_useless_mutants_cost_their_idea_no_turn() -> None:
    source = mutants(_draft(), 0)
    next(source)
    ideas = [source.send(False).label.split()[0] for _ in range(6)]
    assert set(ideas) == {"argument"}


# -- comparing ---------------------------------------------------------------------------------------------------------


def test_rounding_is_no_difference_and_a_thousandth_is_one() -> None:
    want = torch.linspace(-2, 2, 100)
    assert difference([want], [want * (1 + 1e-6)], torch.float32) is None
    found = difference([want], [want * 1.001], torch.float32)
    assert found and found.kind == "wrong"


@pytest.mark.parametrize(
    ("got", "kind"),
    [
        (torch.tensor([1.0, float("nan")]), "wrong"),
        (torch.tensor([1.0, float("inf")]), "wrong"),
        (torch.tensor([1.0, 2.0], dtype=torch.float64), "dtype"),
        (torch.tensor([[1.0, 2.0]]), "shape"),
    ],
)
def test_kinds_of_differences(got: torch.Tensor, kind: str) -> None:
    found = difference([torch.tensor([1.0, 2.0])], [got], torch.float32)
    assert found and found.kind == kind


def test_the_coarsest_dtype_of_a_program_decides() -> None:
    assert coarsest_dtype("x.to(torch.bfloat16)", [torch.ones(1)]) is torch.bfloat16
    assert coarsest_dtype("x + 1", [torch.ones(1, dtype=torch.float64)]) is torch.float32


# -- known bugs, found without a hint ----------------------------------------------------------------------------------

KNOWN = [
    ("_sfdp_pattern_1_inference", "argument dim of softmax", "wrong"),  # pytorch#196468
    ("pointless_cumsum_replacement", "keyword dtype of cumsum", "dtype"),  # pytorch#189518
    ("addmm", "keyword alpha of add", "wrong"),
]


@pytest.mark.parametrize(
    ("name", "mutation", "kind"), [pytest.param(*KNOWN[0], marks=pytest.mark.slow, id="attention"), *KNOWN[1:]]
)
def test_a_known_bug_is_found_and_the_rule_is_to_blame(name: str, mutation: str, kind: str) -> None:
    rule = _rule(name)
    found = next(
        each
        for each in suspects(rule.rule.id, _attempt(rule), 0, time.monotonic() + ENOUGH)
        if (each.mutation, each.kind) == (mutation, kind)
    )
    assert rule.rule.id in found.guilty and found.reachable
    assert "torch.ops" not in found.text


def test_a_crash_is_found_although_the_rule_never_gets_to_fire(pool: Pool, tmp_path: Path) -> None:
    """pytorch#183988. Its condition fails on every match; asked in a worker, as an audit does."""
    rules = pool.ask(worker_kind(), LIST_RULES, ListRulesRequest()).rules
    twins = [rule.id for rule in rules if rule.name.endswith("randperm_index_pattern")]
    rule = twins[0]  # it stands in two tables: the second does the same where the first is forbidden
    request = SuspectRequest((rule,), tmp_path, 10.0, 0, {rule: FiringProgram(0)})
    pool.run(worker_kind(), SUSPECT, request, timeout=ENOUGH)
    found = next(line for line in read_lines(tmp_path / ANSWERS) if isinstance(line, RuleSuspect))
    assert (found.kind, found.guilty) == ("error", tuple(sorted(twins)))
    assert "torch.randperm(" in found.text and found.reachable


def _says_last_dim(match: Any) -> bool:
    """The dimension of every softmax is the last, as the replacement takes for granted."""
    return all(
        dim % node.args[0].meta["val"].dim() == node.args[0].meta["val"].dim() - 1
        for node in match.nodes
        if node.target is torch.ops.aten.amax.default
        for dim in node.args[1]
    )


def _says_no(keyword: str, operator: str) -> Callable[[Any], bool]:
    return lambda match: not any(keyword in node.kwargs for node in match.nodes if operator in str(node.target))


@pytest.mark.parametrize(
    ("known", "condition"),
    zip(KNOWN, [_says_last_dim, _says_no("dtype", "cumsum"), _says_no("alpha", "add")], strict=True),
)
def test_a_repaired_rule_is_no_longer_suspect(
    monkeypatch: pytest.MonkeyPatch, known: tuple[str, str, str], condition: Callable[[Any], bool]
) -> None:
    name, mutation, kind = known
    rule = _rule(name)
    attempt = _attempt(rule)
    assert [found.kind for found in _found(rule, attempt, mutation)] == [kind]
    for twin in registered():  # another rule with the same pattern would step in
        if twin.table is rule.table and (twin.rule.name == name or _same(twin, rule)):
            checked = twin.entry.extra_check
            monkeypatch.setattr(twin.entry, "extra_check", lambda m, checked=checked: condition(m) and checked(m))
    assert _found(rule, attempt, mutation) == []


def _same(one: Registered, other: Registered) -> bool:
    """The same pattern, but for what its arguments are called."""
    return one.rule.text.replace("inv_scale_factor", "inv_scale") == other.rule.text


@pytest.mark.parametrize(
    "name",
    [
        "pointless_permute_pair",
        pytest.param("pointless_view_pair", marks=pytest.mark.slow),
        pytest.param("decompose_mm", marks=pytest.mark.slow),
    ],
)
def test_sound_rules_give_no_suspects(name: str) -> None:
    rule = _rule(name)
    assert list(suspects(rule.rule.id, _attempt(rule), 0, time.monotonic() + 8)) == []
