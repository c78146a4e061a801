"""Passes that have no source to be read are described by a sentence, and their examples really make them work."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from driftline.backends import BACKENDS
from driftline.backends.pass_texts import TABLES, pass_texts
from driftline.backends.xla import OPTIMISING
from driftline.checking.batch import Screening
from driftline.checking.batch_requests import ProgramRequest
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.patterns.pass_rules import find_pass, pass_rules, pass_text

# Every optimising pass of XLA is described; those that no example of ours brings to work are these.
WITHOUT_EXAMPLE = {
    "conditional-to-select", "literal-canonicalizer", "map-inline", "simplify-conditional", "simplify-sorts",
    "transpose-folding", "tree_reduction_rewriter", "zero_sized_hlo_elimination",
}  # fmt: skip


def test_every_optimising_pass_has_a_sentence() -> None:
    known = pass_texts("xla")
    assert set(OPTIMISING) - {"shape-canonicalizer"} <= set(known)  # which changes every program
    assert {name for name, one in known.items() if not one.program("jax")} == WITHOUT_EXAMPLE
    for compiler in TABLES:
        for one in pass_texts(compiler).values():
            assert one.words.endswith(".") and one.words[0].isupper(), one.name
            for form in ("jax", "tensorflow"):
                ast.parse(one.program(form))
    assert all(one.gone or one.made for one in pass_texts("tflite").values())
    assert not pass_texts("inductor")


@pytest.mark.parametrize(
    ("gone", "made", "names"),
    [
        ("add relu", "add:RELU", {"relu-into-operation"}),
        ("add fully_connected relu", "fully_connected:RELU", {"relu-into-operation", "bias-into-operation"}),
        ("add", "", {"bias-into-operation"}),
        ("add mul relu6", "hard_swish", {"hard-swish"}),
        ("minimum relu", "relu6", {"relu6-of-clamp"}),
        ("pow", "mul", {"power-to-product"}),
        ("cast", "", set()),
    ],
)
def test_a_fusion_is_told_by_what_is_gone_and_what_is_there(gone: str, made: str, names: set[str]) -> None:
    less, more = Counter(gone.split()), Counter(made.split())
    assert {name for name, one in pass_texts("tflite").items() if one.explains(less, more)} == names


def test_options_of_a_target_leave_passes_out() -> None:
    every = {rule.id for rule in pass_rules("xla")}
    assert every - {rule.id for rule in pass_rules("xla", {"disable": "algsimp+cse"})} == {"algsimp", "cse"}
    assert [rule.id for rule in pass_rules("xla", {"pass": "fusion"})] == ["fusion"]
    assert not pass_rules("xla", {"jit": "off"})
    assert (found := find_pass("tflite/gelu")) and (found.compiler, found.kind) == ("tflite", "fusion")
    assert (found := find_pass("tensorflow-xla/fusion")) and pass_text(found).form == "tensorflow"
    assert find_pass("no-such-pass") is None


def _silent(compiler: str, names: list[str], pool: Pool) -> list[str]:
    """The passes whose example does not make them work."""
    rules = [rule for rule in pass_rules(compiler) if rule.name in names]
    form, texts = pass_text(rules[0]).form, pass_texts(compiler)
    requests = [
        ProgramRequest("llm", rule.id, number, ("random",), "s", text=texts[rule.name].program(form), mode="change")
        for number, rule in enumerate(rules)
    ]
    with Screening(pool, form, timeout=400.0) as screening:
        results = screening.screen(requests, Target(compiler))
    return [rule.name for rule, result in zip(rules, results, strict=True) if rule.id not in result.behaviour]


@pytest.mark.parametrize(
    ("compiler", "names"),
    [("xla", ["dot_decomposer", "topk-rewriter"]), ("tflite", ["relu-into-operation", "hard-swish"])],
)
def test_examples_make_their_passes_work(compiler: str, names: list[str], pool: Pool) -> None:
    if not BACKENDS.get(compiler).installed().available:
        pytest.skip(f"{compiler} is not installed")
    assert _silent(compiler, names, pool) == []


@pytest.mark.slow
@pytest.mark.parametrize("compiler", TABLES)
def test_all_examples_make_their_passes_work(compiler: str, pool: Pool) -> None:
    if not BACKENDS.get(compiler).installed().available:
        pytest.skip(f"{compiler} is not installed")
    form = pass_text(pass_rules(compiler)[0]).form
    names = [name for name, one in pass_texts(compiler).items() if one.program(form)]
    assert _silent(compiler, names, pool) == []
