"""What a node of a cluster does with its orders, in this process: no Ray is needed for it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from driftline.campaign.orders import SuspectOrder, TurnOrder
from driftline.checking.batch_requests import ProgramRequest
from driftline.cluster import node
from driftline.cluster.node import examine_there, screen_there
from driftline.cluster.taking import slim, take_over
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.store import Store
from driftline.testing import planted

ROW = TensorType("float32", (4,))
PLUGIN = str(Path(planted.__file__).resolve())
TARGET = Target.parse("planted-wrong-on:op=abs")
OPTIONS = CheckOptions(plugins=(PLUGIN,))


@pytest.fixture(autouse=True)
def warm_node(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    load_plugins([PLUGIN])
    monkeypatch.setattr(node, "_NODE", node._Node(pool))
    monkeypatch.setattr(node, "KINDS_KEPT", 1000)  # the pool is that of all tests
    yield


def program(number: int, *operators: str) -> ProgramRequest:
    nodes = tuple(Node(name, (at,), (ROW,)) for at, name in enumerate(operators))
    graph = Graph((Leaf("input", ROW),), nodes, (len(operators),))
    return ProgramRequest("graph", operators[0], number, ("random",), seed=str(number), graph=graph)


def test_a_turn_comes_back_in_its_order() -> None:
    order = TurnOrder(TARGET, "torch", (program(0, "exp"), program(1, "exp", "abs")), OPTIONS)
    carried = pickle.loads(pickle.dumps(screen_there(pickle.loads(pickle.dumps(order)))))  # as Ray does it
    assert carried.value is not None
    assert [one.judgement for one in carried.value] == ["pass", "fail"]
    assert [one.request.number for one in carried.value] == [0, 1]


def test_what_an_examination_finds_is_recorded_by_the_hunt(tmp_path: Path) -> None:
    order = SuspectOrder(TARGET, "torch", program(0, "exp", "abs"), OPTIONS)
    first = pickle.loads(pickle.dumps(examine_there(order, None, ()))).value
    assert first is not None and first.examined.state == "bug"
    ((there, new),) = first.examined.bugs
    assert new and there.fingerprint.detail == "abs of float"
    with Store.create(tmp_path / "mine") as mine, Store.open(first.unpack(tmp_path)) as theirs:
        kept = take_over(theirs, mine, there.id)
        assert (kept.id, kept.summary, len(kept.findings)) == (there.id, there.summary, 1)
        finding = kept.findings[0]
        mine.load_case(finding.case_id)
        for digest in finding.verdict["artifacts"].values():
            mine.load_tensors(digest)
        assert take_over(theirs, mine, there.id) == replace(kept, last_seen=mine.bug(kept.id).last_seen), (
            "twice is once"
        )
        findings = tuple(replace(finding, case_id=str(n)) for n in range(5))  # as many as a hunt keeps
        known = slim(replace(kept, findings=findings))
    again = examine_there(order, None, (known,)).value
    assert again is not None and [(bug.id, new) for bug, new in again.examined.bugs] == [(kept.id, False)]
    assert not again.files, "a bug that is known well is only counted"


def test_an_error_that_the_hunt_has_not_recorded_yet_is_sent_again() -> None:
    """The next examination of a process may end before the hunt has taken over what the last one found."""
    raising = str(Path(__file__).parent / "raising_abs.py")
    load_plugins([raising])
    options = CheckOptions(plugins=(raising,))
    order = SuspectOrder(Target("raising-abs"), "onnx", program(0, "abs"), options)
    first = examine_there(order, None, ()).value
    assert first is not None and first.files
    second = examine_there(order, None, ()).value
    assert second is not None and second.files
    known = tuple(slim(bug) for bug, _ in first.examined.bugs)
    third = examine_there(order, None, known).value
    assert third is not None and third.examined.bugs and not third.files, "now it has"
    other = replace(order, request=program(1, "neg", "abs"))
    further = examine_there(other, None, known).value
    assert further is not None and [bug.id for bug, _ in further.examined.bugs] == [bug.id for bug in known]
    assert not further.files, "the same message, in a larger program: the hunt's store is enough to know it"


def test_a_compiler_that_cannot_start_is_told() -> None:
    carried = screen_there(TurnOrder(Target.parse("onnxruntime@0.0.1"), "onnx", (program(0, "exp"),), OPTIONS))
    assert carried.value is None and carried.cannot_start + carried.sentence
