"""Suspects that nobody had time for are held against the bugs that are known, many at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from driftline.campaign.hunt import by_target
from driftline.campaign.lane import Lane
from driftline.campaign.matching import Matching
from driftline.campaign.orders import SuspectOrder
from driftline.campaign.triage import Triage
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.identity import operators_named_in
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.core.wire import decode, encode
from driftline.execute.pool import Pool
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.store import Store
from driftline.store.hunts import Suspect, SuspectBody
from driftline.testing import planted

ROW = TensorType("float32", (4,))
PLUGIN = str(Path(planted.__file__).resolve())
TARGET = Target.parse("planted-wrong-on:op=abs")


def suspect(number: int, *operators: str) -> Suspect:
    """Each operator on the result of the one before it."""
    nodes = tuple(Node(name, (at,), (ROW,)) for at, name in enumerate(operators))
    graph = Graph((Leaf("input", ROW),), nodes, (len(operators),))
    request = ProgramRequest("graph", operators[0], number, ("random",), seed=str(number), graph=graph)
    return Suspect(
        number, str(TARGET), 0, SuspectBody(encode(ProgramRequest, request), False, "wrong-value", "RUN", "")
    )


def test_what_holds_a_known_bug_is_settled_and_what_may_be_new_is_not(pool: Pool, tmp_path: Path) -> None:
    load_plugins([PLUGIN])
    waiting = [suspect(1, "exp", "abs", "neg"), suspect(2, "exp", "neg"), suspect(3, "sin", "abs")]
    with Store.create(tmp_path / "store") as store:
        options = CheckOptions(plugins=(PLUGIN,))
        triage = Triage(Checker(pool, jobs=1), store)
        unknown = {one.id: found.state for one, found in Matching(triage, TARGET, "torch", options).settled(waiting)}
        assert unknown == {2: "gone"}, "no bug is known yet"
        lone = decode(ProgramRequest, suspect(0, "abs").body.request)
        examined = triage.examine(SuspectOrder(TARGET, "torch", lone, options))
        ((bug, new),) = examined.bugs
        assert new and bug.fingerprint.detail == "abs of float"
        known = {one.id: found for one, found in Matching(triage, TARGET, "torch", options).settled(waiting)}
    assert {number: found.state for number, found in known.items()} == {1: "bug", 2: "gone", 3: "bug"}
    assert [[held.id for held, _ in known[number].bugs] for number in (1, 3)] == [[bug.id], [bug.id]]


def test_a_suspect_is_run_on_the_target_on_which_it_failed() -> None:
    lane = Lane(Target("inductor"), "torch", 0, 10, {"graph": ["abs"]}, {}, ("random",))
    plain = suspect(1, "abs")
    request = replace(decode(ProgramRequest, plain.body.request), options=(("freezing", "yes"),))
    optional = replace(plain, id=2, body=replace(plain.body, request=encode(ProgramRequest, request)))
    groups = {str(target): [one.id for one in held] for target, held in by_target(lane, [plain, optional]).items()}
    assert groups == {"inductor": [1], "inductor:freezing=yes": [2]}


def test_the_operators_in_a_name() -> None:
    assert operators_named_in("abs of float") == {"abs"}
    assert operators_named_in("RuntimeError in gelu+matmul of half") == {"gelu", "matmul"}
    assert operators_named_in("sin after another call of float") == {"sin"}
