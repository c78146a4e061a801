"""In which order an audit works: what is new before what is known, what people can write before what they cannot."""

from __future__ import annotations

from driftline.core.rule import Rule
from driftline.patterns.agenda import Agenda, growing, spread
from driftline.patterns.inductor.requests import RuleSuspect


def _rule(name: str, where: str) -> Rule:
    return Rule(name, "inductor", "table", name, "graph", where)


def _suspect(rule: str, mutation: str, kind: str = "wrong", *, reachable: bool = True) -> RuleSuspect:
    return RuleSuspect(rule, mutation, "", {}, False, False, kind, reachable=reachable, guilty=(rule,))


def test_one_rule_of_each_function_comes_before_the_second_ones() -> None:
    rules = [_rule("a1", "f:1"), _rule("a2", "f:1"), _rule("b1", "f:9"), _rule("a3", "f:1"), _rule("b2", "f:9")]
    assert spread(rules) == ["a1", "b1", "a2", "b2", "a3"]


def test_the_first_batches_are_small_and_nothing_is_left_out() -> None:
    batches = [list(batch) for batch in growing(range(20), 8)]
    assert [len(batch) for batch in batches] == [1, 2, 4, 8, 5]
    assert [one for batch in batches for one in batch] == list(range(20))


def test_new_families_come_first_and_what_is_never_written_comes_last() -> None:
    one, two = _rule("one", "f.py:1"), _rule("two", "f.py:2")
    work = Agenda(["rule"])
    work.add_suspect(_suspect("one", "hidden", reachable=False), one)
    work.add_suspect(_suspect("one", "dim"), one)
    work.add_suspect(_suspect("one", "dim"), one)  # the same again
    work.add_suspect(_suspect("two", "dim"), two)  # a twin: same file, same change
    work.add_suspect(_suspect("two", "size", "unjudged"), two)
    order = []
    while item := work.next():
        order.append(item.body if isinstance(item.body, str) else f"{item.body.rule} {item.body.mutation}")
        work.finished()
    assert order == ["one dim", "rule", "two dim", "two size", "one hidden"]
