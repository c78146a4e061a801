"""A rule's requirement is asked for once, by the rule's own source, and asked again when that changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from driftline.cli import run
from driftline.core.rule import Rule
from driftline.llm.allowance import Allowance
from driftline.llm.client import ChatClient
from driftline.llm.model import RecordedModel
from driftline.llm.requirement import Analyst, Requirement
from driftline.llm.rules import RuleText
from driftline.llm.settings import LlmSettings
from driftline.patterns.requirements import NO_SOURCE, SPENT, describe_rules
from driftline.store import Store
from driftline.testing.chat_server import MODEL, ChatServer, failure, reply

ANSWER = "PATTERN:\n```python\ny = a @ b + c @ d\n```\nCONSTRAINTS:\n- all are matrices\n* of one dtype\n"
RULES = [Rule(f"{number:08x}", "inductor", "post_grad", f"rule_{number}", "graph") for number in range(6)]


class Book:
    def rules(self, target):
        return RULES

    def text(self, rule):
        return RuleText(f"CallFunction({rule.name})", f"def {rule.name}(match): ...")

    def shown(self, rule):
        raise AssertionError("no program is needed to describe a rule")


def test_an_answer_has_a_pattern_and_constraints() -> None:
    made = Requirement.read(ANSWER)
    assert made.pattern == "y = a @ b + c @ d"
    assert made.constraints == ("all are matrices", "of one dtype")
    assert Requirement.read("It needs two products.").constraints == ("It needs two products.",)


def described(store: Store, server: ChatServer, rules=RULES, book=None, tokens: int | None = None):
    settings = LlmSettings(server.url, MODEL, connections=2)
    client = ChatClient(settings, wait=lambda _: False)
    try:
        analyst = Analyst(store, RecordedModel(store, client), MODEL)
        return list(describe_rules(rules, book or Book(), analyst, settings, Allowance(tokens)))
    finally:
        client.close()


def test_a_rule_is_asked_about_once(store_folder: Path) -> None:
    with Store.create(store_folder) as store, ChatServer([reply(ANSWER)]) as server:
        first = described(store, server)
        assert [one.rule for one in first] == RULES and len(server.requests) == 6
        assert all(one.described.requirement and one.tokens == 150 for one in first)
        again = described(store, server)
        assert [one.described.requirement for one in again] == [one.described.requirement for one in first]
        assert len(server.requests) == 6 and all(one.tokens == 0 for one in again)

        class Changed(Book):
            def text(self, rule):
                return replace(super().text(rule), source="def other(): ...")

        described(store, server, RULES[:1], Changed())
        assert len(server.requests) == 7
    asked = server.requests[0]["messages"][1]["content"]
    assert "rule_0" in asked or "rule_1" in asked  # two at a time


def test_a_spent_allowance_is_overdrawn_by_one_answer_a_connection_at_most(store_folder: Path) -> None:
    with Store.create(store_folder) as store, ChatServer([reply(ANSWER)]) as server:
        found = described(store, server, tokens=200)
        assert len(server.requests) == 2 and sum(one.tokens for one in found) <= 200 + 2 * 150
        assert [one.described.problem for one in found] == ["", "", SPENT, SPENT, SPENT, SPENT]


def test_a_rule_without_a_description_says_why(store_folder: Path) -> None:
    class Secretive(Book):
        def text(self, rule):
            return RuleText("")

    with Store.create(store_folder) as store, ChatServer([failure(400, "too long")]) as server:
        (hidden,) = described(store, server, RULES[:1], Secretive())
        assert hidden.described.problem == NO_SOURCE and not server.requests
        (refused,) = described(store, server, RULES[:1])
        assert refused.described.requirement is None and "too long" in refused.described.problem


@pytest.mark.slow
def test_the_command_describes_a_rule_of_inductor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with ChatServer([reply(ANSWER)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("DRIFTLINE_LLM_MODEL", MODEL)
        assert run(["patterns", "describe", "mm_plus_mm", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rules"][0]["pattern"] == "y = a @ b + c @ d" and told["tokens"] == 150
    asked = server.requests[0]["messages"][1]["content"]
    assert "aten.mm" in asked and "def mm_plus_mm" in asked


def test_the_command_describes_passes_in_the_language_of_their_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with ChatServer([reply(ANSWER)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("DRIFTLINE_LLM_MODEL", MODEL)
        assert run(["patterns", "describe", "xla/fusion", "--json"]) == 0
        assert run(["patterns", "describe", "--only", "tensorflow-xla/f*", "--json"]) == 0
        assert run(["patterns", "describe", "tflite/gelu", "--json"]) == 0
        assert run(["patterns", "describe", "xla/fusion", "--json"]) == 0  # known by now
        assert run(["patterns", "describe", "--only", "xla/nothing*"]) == 2
    asked = [body["messages"] for body in server.requests]
    assert len(asked) == 3
    assert ["JAX" in one[0]["content"] for one in asked] == [True, False, False]
    assert ["shortest TensorFlow code" in one[1]["content"] for one in asked] == [False, True, True]
    assert "Joins elementwise operations" in asked[0][1]["content"]
    assert "no rule of xla" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "OPENAI_BASE_URL"),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, "DRIFTLINE_LLM_MODEL"),
    ],
)
def test_what_is_missing_is_one_sentence(
    variables, words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "DRIFTLINE_LLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert run(["patterns", "describe", "--all"]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
