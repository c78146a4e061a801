"""Suspects that nobody had time for are held against the bugs that are known, many at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import onnx

from driftline.campaign.check.session import check_program
from driftline.campaign.hunt.crew import LocalCrew
from driftline.campaign.hunt.hunter import Hunter, by_target
from driftline.campaign.hunt.lane import Lane
from driftline.campaign.hunt.plan import HuntPlan
from driftline.campaign.hunt.result import HuntResult
from driftline.campaign.orders import SuspectOrder
from driftline.campaign.triage.examination import ExaminedSuspect, Triage
from driftline.campaign.triage.known_forms import KnownForms
from driftline.campaign.triage.matching import Matching
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import CheckOptions
from driftline.core.identity import operators_named_in
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.core.wire import decode, encode
from driftline.execute.pool import Pool
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.store import Store
from driftline.store.hunts import HuntLog, Suspect, SuspectBody, Turn, TurnBody
from driftline.testing import planted

FUSIONS = str(Path(__file__).with_name("faulty_fusions.py"))
FAULTY = str(Path(__file__).with_name("faulty_pairs.py"))
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


def test_a_program_that_returns_a_constant_of_its_own_is_explained_by_its_parts(pool: Pool, tmp_path: Path) -> None:
    load_plugins([PLUGIN])
    leaves = (Leaf("input", ROW), Leaf("constant", ROW, seed=3))
    nodes = (Node("abs", (0,), (ROW,)), Node("neg", (2,), (ROW,)))
    request = ProgramRequest("mutate", "abs", 1, ("random",), seed="1", graph=Graph(leaves, nodes, (3, 1)))
    body = SuspectBody(encode(ProgramRequest, request), False, "wrong-value", "RUN", "")
    waiting = [Suspect(1, str(TARGET), 0, body)]
    with Store.create(tmp_path / "store") as store:
        options = CheckOptions(plugins=(PLUGIN,))
        triage = Triage(Checker(pool, jobs=1), store)
        lone = decode(ProgramRequest, suspect(0, "abs").body.request)
        ((bug, _),) = triage.examine(SuspectOrder(TARGET, "torch", lone, options)).bugs
        ((_, found),) = Matching(triage, TARGET, "torch", options).settled(waiting)
    assert [held.id for held, _ in found.bugs] == [bug.id]


def test_a_part_that_goes_by_another_name_is_recognised(pool: Pool, tmp_path: Path) -> None:
    """A product of any function goes by that of relu; once that was seen of sigmoid, other products of
    one are known."""
    load_plugins([FUSIONS])
    target = Target("faulty-fusions")
    wide, tall, square = (TensorType("float32", shape) for shape in ((3, 5), (5, 3), (3, 3)))

    def product_of(number: int, function: str, *after: str) -> Suspect:
        nodes = [Node(function, (0,), (wide,)), Node("matmul", (2, 1), (square,))]
        nodes += [Node(name, (3 + at,), (square,)) for at, name in enumerate(after)]
        graph = Graph((Leaf("input", wide), Leaf("input", tall)), tuple(nodes), (len(nodes) + 1,))
        request = ProgramRequest("graph", function, number, ("random",), seed=str(number), graph=graph)
        return Suspect(
            number, str(target), 0, SuspectBody(encode(ProgramRequest, request), False, "wrong-value", "RUN", "")
        )

    waiting = [product_of(1, "sigmoid", "neg"), product_of(2, "tanh", "neg")]
    with Store.create(tmp_path / "store") as store:
        options = CheckOptions(plugins=(FUSIONS,))
        triage = Triage(Checker(pool, jobs=1), store)
        seen = decode(ProgramRequest, product_of(0, "sigmoid").body.request)
        ((bug, _),) = triage.examine(SuspectOrder(target, "torch", seen, options)).bugs
        assert bug.fingerprint.detail == "matmul+relu of float"
        known = {one.id: found for one, found in Matching(triage, target, "torch", options).settled(waiting)}
    assert [held.id for held, _ in known[1].bugs] == [bug.id]
    assert list(known) == [1], "nobody looked at a product of a tanh"


def test_what_parts_turned_out_to_be_is_known_of_those_that_were_always_the_same() -> None:
    forms = KnownForms()
    forms.note("a", "xla", {"var"}, {"sum"})
    forms.note("a", "xla", {"var"}, {"sum"})
    forms.note("b", "tvm", {"std"}, {"sum"})
    forms.note("b", "tvm", {"std"}, {"sqrt"})
    forms.note("many", "xla", {"var", "add", "mul"}, {"sum"})
    forms.note("none", "xla", (), {"sum"})
    assert (forms.bug("a"), forms.bug("b"), forms.bug("c")) == ("sum", None, None)
    assert forms.operators("xla") == {frozenset({"var"})}, "parts of so many operators are not asked about"


def test_a_known_bug_does_not_hide_another_one_of_the_same_program(pool: Pool, tmp_path: Path) -> None:
    """Of a compiler that is wrong about abs (which is known) and exp, dies of a tan that follows an abs, and is wrong
    about a tanh that follows an abs."""
    load_plugins([FAULTY])
    target = Target.parse("faulty-pairs")
    waiting = [
        suspect(1, "neg", "abs", "sin"),
        suspect(2, "abs", "sin", "exp"),
        suspect(3, "exp", "abs"),
        suspect(4, "abs", "tan"),
        suspect(5, "abs", "tanh"),
    ]
    with Store.create(tmp_path / "store") as store:
        options = CheckOptions(plugins=(FAULTY,))
        triage = Triage(Checker(pool, jobs=1), store)
        lone = decode(ProgramRequest, suspect(0, "abs").body.request)
        ((bug, _),) = triage.examine(SuspectOrder(target, "onnx", lone, options)).bugs
        settled = {one.id: found for one, found in Matching(triage, target, "onnx", options, 2).settled(waiting)}
    assert [bug.id for bug, _ in settled[1].bugs] == [bug.id]
    assert list(settled) == [1], (
        "exp is wrong too, a crash is no wrong number, and tanh is right alone: these may be new"
    )


def test_a_setting_that_a_failure_needs_is_part_of_its_name(pool: Pool, tmp_path: Path) -> None:
    load_plugins([FAULTY])
    plain, changed = Target.parse("faulty-pairs"), Target.parse("faulty-pairs:opt=off")
    options = CheckOptions(plugins=(FAULTY,))

    def named(target: Target, operator: str) -> list[tuple[str, str, bool]]:
        request = decode(ProgramRequest, suspect(0, operator).body.request)
        found = triage.examine(SuspectOrder(target, "onnx", request, options)).bugs
        return [(bug.id, bug.fingerprint.detail, new) for bug, new in found]

    with Store.create(tmp_path / "store") as store:
        triage = Triage(Checker(pool, jobs=1), store)
        ((known, detail, _),) = named(plain, "abs")
        assert named(changed, "abs") == [(known, detail, False)], "the setting does not matter to this one"
        ((needing, detail, new),) = named(changed, "cos")
        assert detail == "cos with opt=off of float" and new
        (finding,) = store.bug(needing).findings
        assert "with opt=off" in store.load_case(finding.case_id).program.pattern
        text = '<ir_version: 8, opset_import: ["": 18]> g (float[4] x) => (float[4] y) { y = Cos (x) }'
        onnx.save(onnx.parser.parse_model(text), str(tmp_path / "cos.onnx"))
        opened = open_program(str(tmp_path / "cos.onnx"), pool, options)
        checked = check_program(Checker(pool, jobs=1), store, opened, targets=[changed], options=options)
        assert [bug.id for bug in checked.bugs.values()] == [needing], "a check gives it the same name"
    assert operators_named_in(detail) == {"cos"}


def test_waiting_suspects_get_what_is_left_of_the_grace(pool: Pool, tmp_path: Path) -> None:
    """Not a second grace: a budget of 100 s ends after 105 s at the latest."""
    deadlines = []

    class Watch(LocalCrew):
        def match(self, *_: object) -> Iterator[tuple[Suspect, ExaminedSuspect]]:
            deadlines.append(pool.deadline - time.monotonic())
            return iter(())

    plan = HuntPlan(("onnxruntime",), ("graph",), seconds=100.0)
    lane = Lane(Target("onnxruntime"), "onnx", 0, 10, {"graph": ["abs"]}, {}, ("random",))
    with Store.create(tmp_path / "store") as store:
        hunter = Hunter(pool, store, plan, listener=lambda event: None, crew=Watch(pool, store, 1))
        hunter._lanes = {lane.name: lane}
        hunter._hunt = HuntLog(store).begin(plan.to_json(), {})
        hunter._result = HuntResult(hunter._hunt)
        one = suspect(1, "abs")
        HuntLog(store).add_turn(hunter._hunt, Turn(lane.name, 0, TurnBody(programs=1)), [one.body])
        hunter._started = time.monotonic() - 103.0
        hunter._match_waiting()
    assert len(deadlines) == 1 and deadlines[0] <= 2.0


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
