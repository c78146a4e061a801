"""Rules as data: ids that stay, counts that mean something, and a way to forbid one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from inductor_processors import OPTIMISATIONS, RULES

from driftline.checking.checker import Checker
from driftline.core.errors import DriftlineError
from driftline.core.rule import Reach, Rule
from driftline.core.target import Target
from driftline.patterns.audit import chosen
from driftline.patterns.diff import Listed, difference, listed_in
from driftline.patterns.inductor_audit import list_rules
from driftline.report.scripts.render import short_script

ATTENTION = """\
import torch


def model(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / 2.0, dim=DIM) @ v


def program():
    q = torch.randn((2, 4, 8, 16))
    k = torch.randn((2, 4, 8, 16))
    v = torch.randn((2, 4, 8, 16))
    return model, (q, k, v)
"""


@pytest.fixture(scope="module")
def inductor(checker: Checker) -> list[Rule]:
    return list_rules(checker)[1]


def test_every_rule_is_listed_once(inductor: list[Rule]) -> None:
    assert len(inductor) == len({rule.id for rule in inductor}) == RULES
    assert len({rule.optimisation for rule in inductor}) == OPTIMISATIONS
    assert {rule.kind for rule in inductor} == {"replacement", "lowering", "graph"}
    assert all(rule.where and rule.text for rule in inductor)


@pytest.mark.slow
def test_ids_are_the_same_in_another_process_that_has_compiled_before(inductor: list[Rule]) -> None:
    """Ids name rules on the command line and in stores: whatever ran before must not change them."""
    code = (
        "import torch, json\n"
        "with torch.no_grad(): torch.compile(lambda x: x.sin() @ x)(torch.ones(4, 4))\n"
        "from driftline.backends.inductor_rules.registry import registered\n"
        "print(json.dumps([each.rule.id for each in registered()]))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(ran.stdout.splitlines()[-1])) == {rule.id for rule in inductor}


# What the passes make of a program, in a process that has compiled nothing: it is forked from one that knows the rules.
PASSES = """\
import json, os, sys
from driftline.backends.inductor_rules.registry import registered
names = {each.rule.id: each.rule.name for each in registered()}
from driftline.patterns.inductor.draft import live
from driftline.patterns.inductor.pipeline import run_passes

def answer(text, forbidden):
    model, inputs = live(text)
    passed = run_passes(text, {}, forbidden=frozenset(id for id, name in names.items() if name in forbidden))
    same = bool((passed.outputs[0] - model(*inputs)).abs().max() < 1e-5)
    print(json.dumps([sorted(names[rule] for rule in passed.fired), same, sorted(passed.rewrites)]), flush=True)

for line in iter(sys.stdin.readline, ""):
    child = os.fork()
    if child == 0:
        answer(*json.loads(line))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print("END", flush=True)
"""
Passes = Callable[..., tuple[list[str], bool, list[str]]]


@pytest.fixture(scope="module")
def passes() -> Iterator[Passes]:
    with subprocess.Popen(
        [sys.executable, "-c", PASSES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        asking, answers = process.stdin, process.stdout

        def ask(text: str, *forbidden: str) -> tuple[list[str], bool, list[str]]:
            print(json.dumps([text, forbidden]), file=asking, flush=True)
            *_, last = iter(lambda: answers.readline() or pytest.fail("the process has ended"), "END\n")
            fired, same, rewrites = json.loads(last)
            return fired, same, rewrites

        yield ask
        asking.close()


def test_the_passes_tell_which_rule_fired_and_what_it_made_of_the_program(passes: Passes) -> None:
    fired, same, _ = passes(ATTENTION.replace("DIM", "-1"))
    assert fired == ["_sfdp_pattern_1_inference"] and same


def test_a_wrong_rewrite_shows_and_goes_when_its_rules_are_forbidden(passes: Passes) -> None:
    wrong = ATTENTION.replace("DIM", "-2")
    fired, same, _ = passes(wrong)
    assert fired == ["_sfdp_pattern_1_inference"] and not same
    fired, same, _ = passes(wrong, "_sfdp_pattern_1_inference", "_sfdp_pattern_3_inference")
    assert not any(name.startswith("_sfdp") for name in fired) and same


@pytest.mark.slow
def test_what_rewrites_outside_the_tables_is_counted_too(passes: Passes) -> None:
    text = ATTENTION.replace("softmax(q @", "softmax(q.clone() @").replace("DIM", "-1")
    _, _, rewrites = passes(text)
    assert "no-op/aten.clone.default" in rewrites and "pass/remove_noop_ops" in rewrites
    assert "decomposition/aten.softmax.int" in rewrites or "decomposition/aten._softmax.default" in rewrites


def test_a_rule_is_chosen_by_id_name_group_or_path() -> None:
    rule = Rule("89bf1dea", "inductor", "joint_graph.pass_patterns[0]", "_sfdp_pattern_1", "replacement")
    assert all(chosen(rule, glob) for glob in ("", "89bf1dea", "_sfdp*", "inductor", "inductor/joint_graph*"))
    assert not chosen(rule, "_sfdp_pattern_2") and not chosen(rule, "tvm*")


def test_steps_are_in_order() -> None:
    assert [str(step) for step in sorted(Reach, key=lambda step: step.rank)] == [
        "none", "built", "matched", "fired_alone", "fired",
    ]  # fmt: skip


# -- two versions ------------------------------------------------------------------------------------------------------


def _rule(number: int, name: str, text: str = "") -> Rule:
    return Rule(f"{number:08x}", "inductor", "post_grad.pass_patterns[1]", name, "graph", text=text)


def test_rules_of_two_versions_are_told_apart() -> None:
    old = Listed("2.12", [_rule(1, "kept"), _rule(2, "gone"), _rule(3, "changed", "a")])
    new = Listed("2.13", [_rule(1, "kept"), _rule(4, "changed", "b"), _rule(5, "come")])
    found = difference(old, new)
    assert [rule.name for rule in found.added] == ["come"]
    assert [rule.name for rule in found.removed] == ["gone"]
    assert [(a.text, b.text) for a, b in found.changed] == [("a", "b")]
    assert found.kept == 1


def test_a_list_from_another_machine_can_be_compared(checker: Checker, inductor: list[Rule], tmp_path: Path) -> None:
    saved = tmp_path / "rules.json"
    rules = [rule.to_json() for rule in inductor[1:]]
    saved.write_text(json.dumps({"schema": 1, "versions": {"inductor": "2.12.1"}, "rules": rules}))
    found = difference(listed_in(checker, str(saved)), Listed("2.13.0", inductor))
    assert found.added == (inductor[0],) and not found.removed and found.kept == RULES - 1


def test_the_torch_of_another_interpreter_can_be_compared(checker: Checker, inductor: list[Rule]) -> None:
    other = listed_in(checker, sys.executable)
    assert difference(other, Listed("same", inductor)).kept == RULES


@pytest.mark.parametrize("other", ["nowhere", "rules.json", "torch==0.0.1"])
def test_what_is_no_torch_is_one_sentence(checker: Checker, other: str) -> None:
    with pytest.raises(DriftlineError) as problem:
        listed_in(checker, other)
    assert other.partition("==")[2] in str(problem.value)


# -- scripts -----------------------------------------------------------------------------------------------------------


def test_a_short_script_runs_by_itself_and_shows_both_results(tmp_path: Path) -> None:
    script = short_script(ATTENTION.replace("DIM", "-2"), Target.parse("inductor:constant_folding=true"))
    assert len([line for line in script.splitlines() if line.strip()]) <= 15
    path = tmp_path / "script.py"
    path.write_text(script)
    ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True, timeout=300)
    assert "expected" in ran.stdout and "got" in ran.stdout
