"""What the portfolio must find, and what it must prove."""

import numpy as np
import pytest

from driftline.inputs.symbolic import functions as f
from driftline.inputs.symbolic.answers import SolverOutcome, confirms
from driftline.inputs.symbolic.exact import solve_exactly
from driftline.inputs.symbolic.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from driftline.inputs.symbolic.functions import variables
from driftline.inputs.symbolic.goals import PLAIN, Goal, GoalKind, Query
from driftline.inputs.symbolic.portfolio import solve
from driftline.inputs.symbolic.rewrites import rewritten

SMALL = [FLOAT32, FLOAT16, BFLOAT16]


def box(row, low, high):
    return {node.name: (low, high) for node in row}


def unstable(form):
    x, y = variables(4, form), variables(4, form, "y")
    a, b = x[:2]
    pole = a / (f.exp(8.0 * (a - 1.2345)) - b)
    return {
        "naive softmax": Query(Goal(GoalKind.NAN), tuple(f.softmax_naive(x))),
        "logsumexp": Query(Goal(GoalKind.INF), (f.logsumexp_naive(x),)),
        "one-pass variance": Query(Goal(GoalKind.NAN), (f.sqrt(f.variance_one_pass(x)),), ranges=box(x, 1, 100)),
        "cosine similarity": Query(Goal(GoalKind.NAN), (f.cosine_similarity(x, y),), ranges=box([*x, *y], -10, 10)),
        "cross entropy": Query(Goal(GoalKind.INF), (f.cross_entropy_naive(x),), ranges=box(x, -1000, 1000)),
        "layer norm": Query(Goal(GoalKind.ERROR, 1e-2), tuple(f.layer_norm(x)), ranges=box(x, 10, 11)),
        "pole": Query(Goal(GoalKind.INF), (pole,), ranges=box([a, b], 0.5, 2)),
        "norm overflow": Query(Goal(GoalKind.OVERFLOW), (f.norm(x),), ranges=box(x, 0, form.largest**0.7)),
        "norm underflow": Query(Goal(GoalKind.UNDERFLOW), (f.norm(x),), ranges=box(x, 1e-35, 1)),
    }


@pytest.mark.parametrize("form", SMALL, ids=str)
@pytest.mark.parametrize("name", unstable(FLOAT32))
def test_a_witness_is_found_and_runs(form, name):
    query = unstable(form)[name]
    answer = solve(query, 40.0)
    assert answer.outcome is SolverOutcome.WITNESS
    assert confirms(query, answer.numbers)


@pytest.mark.parametrize("form", [*SMALL, FLOAT64], ids=str)
def test_stable_forms_are_proved_free_of_nan(form):
    x = variables(4, form)
    for roots in (f.softmax(x), [f.logsumexp(x)], [f.sqrt(f.variance(x))], [f.safe_log(x[0])]):
        assert solve(Query(Goal(GoalKind.NAN), tuple(roots)), 20.0).outcome is SolverOutcome.PROOF


def test_a_proof_holds_in_one_format_and_not_in_another():
    """1e-12 is zero in float16: a row of zeros is divided by it."""
    outcome = {form: solve(Query(Goal(GoalKind.NAN), tuple(f.normalize(variables(4, form))))).outcome for form in SMALL}
    assert outcome == {FLOAT32: SolverOutcome.PROOF, FLOAT16: SolverOutcome.WITNESS, BFLOAT16: SolverOutcome.PROOF}


def test_the_one_point_of_a_large_range_is_not_lost():
    """0 / 0 where y is exp(-9.876): one float64 of 2**64."""
    a, b = variables(2, FLOAT64)
    query = Query(Goal(GoalKind.NAN), (a / (f.exp(8.0 * (a - 1.2345)) - b),), ranges=box([a, b], -2, 2))
    assert solve(query, 10.0).outcome is not SolverOutcome.PROOF


@pytest.mark.parametrize(
    ("name", "build", "low", "high"),
    [
        ("fma", lambda x: f.sqrt(x[0] * x[0] - x[1] * x[1]), 0.5, 100),
        ("reassociate", lambda x: f.total(x), -100, 100),
        ("reciprocal", lambda x: x[0] / x[1], 0, 1e-30),
        ("exp-quotient", lambda x: f.exp(x[0]) / f.exp(x[1]), 0, 1000),
        ("one-pass", lambda x: f.variance(x), 1, 100),
    ],
)
def test_legal_lowerings_diverge(name, build, low, high):
    x = variables(4, FLOAT32)
    root = (build(x),)
    query = Query(Goal(GoalKind.DIVERGE, 0.0, PLAIN, name), root, rewritten(name, root), box(x, low, high))
    answer = solve(query, 40.0)
    assert answer.outcome is SolverOutcome.WITNESS
    assert confirms(query, answer.numbers)


def test_the_exact_solver_finds_a_needle_and_refutes_one():
    """x * x - 2 is zero for no float32, and x * x - 2.25 for one in four thousand million."""
    (x,) = variables(1, FLOAT32)
    needle = Query(Goal(GoalKind.INF), (1.0 / (x * x - 2.25),), ranges=box([x], 0, 100))
    found = solve_exactly(needle, lambda: 15.0)
    assert found.outcome is SolverOutcome.WITNESS
    assert found.numbers == {"x0": 1.5}
    none = Query(Goal(GoalKind.NAN), ((x * x - 2.0) / (x * x - 2.0),), ranges=box([x], 0, 100))
    assert solve_exactly(none, lambda: 15.0).outcome is SolverOutcome.PROOF


def test_an_answer_comes_within_the_budget():
    x = variables(8, FLOAT32)
    query = Query(Goal(GoalKind.ERROR, 0.5), (x[0] * 1.0 + 0.0 * x[1],), ranges=box(x, 1, 2))
    answer = solve(query, 1.0)
    assert answer.outcome is SolverOutcome.UNKNOWN
    assert answer.seconds < 60.0  # it would take years


def test_the_same_seed_gives_the_same_witness():
    query = unstable(FLOAT32)["naive softmax"]
    assert solve(query, seed=3).numbers == solve(query, seed=3).numbers
    assert np.isfinite(list(solve(query, seed=3).numbers.values())).all()
