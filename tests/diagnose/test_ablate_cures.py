"""The smallest set of knobs that cures a failure, and what turning them makes of a target."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

from driftline.backends import BACKENDS, resolve
from driftline.backends.knobs import Knob, turned
from driftline.core.target import Target
from driftline.diagnose.ablate.cures import smallest_cure
from driftline.diagnose.reduce.search import CandidateAnswer


def knobs(count: int) -> list[Knob]:
    return [Knob("skip", f"Pass{number}", "pass") for number in range(count)]


def test_a_cure_is_as_small_as_it_gets() -> None:
    rng = random.Random(1)
    for _ in range(100):
        names = knobs(rng.randint(1, 40))
        cure = set(rng.sample(names, rng.randint(1, min(3, len(names)))))
        asked = itertools.count()

        def ask(chosen: Sequence[Knob], cure: set[Knob] = cure, asked: itertools.count[int] = asked) -> CandidateAnswer:
            next(asked)
            return CandidateAnswer.PASS if cure <= set(chosen) else CandidateAnswer.SAME

        assert set(smallest_cure(names, ask)) == cure
        assert next(asked) <= (len(cure) + 1) * (2 + math.ceil(math.log2(len(names) + 1))) + len(cure)


def test_no_cure_is_no_cure() -> None:
    assert smallest_cure(knobs(20), lambda chosen: CandidateAnswer.SAME) == []


def test_a_compiler_that_breaks_without_too_much_is_asked_for_halves() -> None:
    """With more than ten passes left out nothing compiles; one of them is the culprit."""
    names = knobs(32)

    def ask(chosen: Sequence[Knob]) -> CandidateAnswer:
        if len(chosen) > 10:
            return CandidateAnswer.NEITHER
        return CandidateAnswer.PASS if names[21] in chosen else CandidateAnswer.SAME

    assert smallest_cure(names, ask) == [names[21]]


def test_turning_knobs_spells_a_target() -> None:
    target = Target.parse("onnxruntime:disable=GeluFusion:opt=all")
    names = [Knob("disable", "FuseReluClip", "optimiser"), Knob("disable", "GeluFusion", "optimiser")]
    assert str(turned(target, names)) == "onnxruntime:disable=GeluFusion+FuseReluClip:opt=all"
    assert str(turned(target, [Knob("opt", "off")])) == "onnxruntime:disable=GeluFusion:opt=off"
    assert str(turned(target, [Knob("disable", "")])) == "onnxruntime:opt=all"
    assert Knob.from_json(names[0].to_json()) == names[0]


def test_every_knob_is_a_valid_option_of_its_target() -> None:
    for name in BACKENDS:
        target = Target.parse(name)
        for knob in BACKENDS.get(name).knobs({}):
            resolve(turned(target, [knob]))
            assert turned(target, [knob]) != target


def test_knobs_do_less_not_more() -> None:
    inductor = BACKENDS.get("inductor")
    assert not any(knob.option == "inject_relu_bug" for knob in inductor.knobs({}))
    assert Knob("inject_relu_bug", "") in inductor.knobs({"inject_relu_bug": "accuracy"})
    assert not any((knob.option, knob.value) == ("freezing", "true") for knob in inductor.knobs({}))
    assert any((knob.option, knob.value) == ("freezing", "false") for knob in inductor.knobs({"freezing": "true"}))
    levels = [knob.value for knob in BACKENDS.get("iree").knobs({}) if knob.option == "opt"]
    assert levels == ["O0", "O1"]
