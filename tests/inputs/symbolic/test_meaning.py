"""The scalar graph means what the formats and operators mean; intervals, rewrites and the solver agree with it."""

from fractions import Fraction

import numpy as np
import pytest

from driftline.core.errors import DriftlineError
from driftline.inputs.symbolic import functions as f
from driftline.inputs.symbolic.evaluate import evaluate
from driftline.inputs.symbolic.exact import solve_exactly
from driftline.inputs.symbolic.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, parse_format, wider
from driftline.inputs.symbolic.functions import variables
from driftline.inputs.symbolic.goals import Goal, GoalKind, Query, parse_goals
from driftline.inputs.symbolic.graph import apply, cast, constant, where
from driftline.inputs.symbolic.intervals import enclose
from driftline.inputs.symbolic.rewrites import REWRITES, rewritten

FORMS = list(FORMATS.values())


def drawn(form, rng, shape):
    """Any finite floats, by their order."""
    return form.value_of(rng.integers(-form.largest_ordinal, form.largest_ordinal, shape, endpoint=True))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_ordinals_are_the_order_of_floats(form):
    rng = np.random.default_rng(0)
    places = rng.integers(-form.largest_ordinal, form.largest_ordinal, 1000, endpoint=True)
    values = form.value_of(places)
    assert (form.ordinal_of(values) == places).all()
    assert (form.value_of(places[places < form.largest_ordinal] + 1) > values[places < form.largest_ordinal]).all()
    assert form.largest == float(np.asarray(form.largest).astype(form.dtype))
    assert np.isinf(form.above(np.array(form.largest)))
    assert float(form.below(np.array(np.inf))) == form.largest


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "sqrt"])
def test_arithmetic_is_that_of_the_dtype(form, op):
    rng = np.random.default_rng(1)
    a, b = drawn(form, rng, (2, 2000))
    names = variables(1 if op == "sqrt" else 2, form)
    got = evaluate([apply(op, *names)], {"x0": a, "x1": b})[apply(op, *names)]
    with np.errstate(all="ignore"):
        own = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt}[op]
        wanted = own(*(x.astype(form.dtype) for x in (a, b)[: len(names)])).astype(form.carrier)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_fma_rounds_once(form):
    rng = np.random.default_rng(2)
    a, b, c = form.round(rng.normal(size=(3, 300)) * 4.0 ** rng.integers(-3, 4, (3, 300)))
    c[:100] = form.round(-(a[:100].astype(np.float64) * b[:100]))  # cancels: what is left was below the last bit
    x = variables(3, form)
    node = apply("fma", *x)
    got = evaluate([node], {"x0": a, "x1": b, "x2": c})[node]
    for row in range(300):
        exact = Fraction(float(a[row])) * Fraction(float(b[row])) + Fraction(float(c[row]))
        near = [float(got[row]), float(form.above(got[row])), float(form.below(got[row]))]
        errors = [abs(Fraction(value) - exact) for value in near]
        assert errors[0] == min(errors)


def test_the_same_expression_is_one_node_and_formats_do_not_mix():
    x, y = variables(2, FLOAT32)
    assert (x + y) * (x + y) is (x + y) * (x + y)
    assert x + y is not y + x
    assert constant(0.0, FLOAT32) is not constant(-0.0, FLOAT32)
    assert constant(0.1, FLOAT16).value != constant(0.1, FLOAT32).value
    with pytest.raises(TypeError, match="cast them first"):
        apply("add", x, variables(1, FLOAT16, "h")[0])


def test_the_accumulator_is_part_of_the_meaning():
    row = variables(3, FLOAT16)
    given = {"x0": np.array([60000.0]), "x1": np.array([60000.0]), "x2": np.array([-60000.0])}
    plain, wide = f.total(row), f.total(row, wider(FLOAT16))
    found = evaluate([plain, wide], given)
    assert np.isinf(found[plain][0])
    assert found[wide][0] == 60000.0


def test_functions_agree_with_numpy():
    rng = np.random.default_rng(3)
    data = rng.normal(size=(4, 50))
    given = {f"x{i}": data[i] for i in range(4)}
    x = variables(4, FLOAT64)
    powers = np.exp(data)
    wanted = {
        f.softmax(x)[1]: powers[1] / powers.sum(0),
        f.softmax_naive(x)[1]: powers[1] / powers.sum(0),
        f.log_softmax(x)[2]: np.log(powers[2] / powers.sum(0)),
        f.logsumexp(x): np.log(powers.sum(0)),
        f.logsumexp_naive(x): np.log(powers.sum(0)),
        f.cross_entropy(x, 3): -np.log(powers[3] / powers.sum(0)),
        f.norm(x): np.linalg.norm(data, axis=0),
        f.variance(x): data.var(0),
        f.variance_one_pass(x): data.var(0),
        f.layer_norm(x, 1e-5)[0]: (data[0] - data.mean(0)) / np.sqrt(data.var(0) + 1e-5),
        f.rms_norm(x, 1e-5)[0]: data[0] / np.sqrt((data**2).mean(0) + 1e-5),
        f.cosine_similarity(x[:2], x[2:]): (data[:2] * data[2:]).sum(0)
        / (np.linalg.norm(data[:2], axis=0) * np.linalg.norm(data[2:], axis=0)),
        f.pairwise(x): data.sum(0),
    }
    found = evaluate(list(wanted), given)
    for node, value in wanted.items():
        np.testing.assert_allclose(found[node], value, rtol=1e-12)


UNARY = ["sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tanh", "sigmoid", "erf",
         "softplus", "abs", "neg", "floor", "ceil", "round"]  # fmt: skip


def shapes_of(form):
    """Expressions over every operator."""
    x, y, z = variables(3, form)
    made = [apply(op, x) for op in UNARY] + [apply(op, x * y + z) for op in UNARY]
    made += [apply(op, x, y) for op in ("add", "sub", "mul", "div", "min", "max", "pow")]
    made += [apply("fma", x, y, z), apply("fma", x, x, y), x * x, x - x, where(apply("lt", x, y), x / z, y - z)]
    made += [
        cast(cast(x, FLOAT16) * cast(y, FLOAT16), form),
        *f.softmax([x, y, z]),
        f.safe_log(x),
        f.variance([x, y, z]),
    ]
    return made


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_intervals_enclose_what_is_computed(form):
    rng = np.random.default_rng(4)
    nodes = shapes_of(form)
    boxes = 300
    ends = np.sort(drawn(form, rng, (2, 3, boxes)), axis=0)
    near = form.ordinal_of(form.round(rng.normal(size=(3, boxes)) * 10))
    width = rng.integers(0, 40, (3, boxes))
    ends[0][:, ::2], ends[1][:, ::2] = form.value_of(near - width)[:, ::2], form.value_of(near + width)[:, ::2]
    low, high = ({f"x{i}": end[i] for i in range(3)} for end in ends)
    query = Query(Goal(GoalKind.NAN), tuple(nodes))
    found = enclose(query.order, low, high)
    for _ in range(20):
        places = rng.integers(form.ordinal_of(ends[0]), form.ordinal_of(ends[1]), endpoint=True)
        values = evaluate(nodes, {f"x{i}": form.value_of(places[i]) for i in range(3)})
        for node in nodes:
            one, value = found[node], np.broadcast_to(values[node], (boxes,))
            nan = np.isnan(value)
            assert (np.broadcast_to(one.nan, nan.shape) >= nan).all(), node
            assert ((one.low <= value) & (value <= one.high) | nan).all(), node


@pytest.mark.parametrize("form", [FLOAT16, BFLOAT16, FLOAT32], ids=str)
def test_the_solver_computes_the_same(form):
    """With variables held at one value, the solver finds a goal exactly where running the graph reaches it."""
    rng = np.random.default_rng(5)
    x, y, z = variables(3, form)
    nodes = [
        x * y - z,
        x / y,
        apply("sqrt", x * x - y * y),
        apply("max", x, y) - z,
        apply("round", x) / z,
        apply("exp", x),
    ]
    nodes += [where(apply("le", x, y), x * y, y / z), apply("log", x) * y]
    for trial in range(12):
        numbers = form.round(rng.choice([0.0, 1.0, 3.0, 300.0, 1e-6, form.largest, -2.5], 3))
        ranges = {f"x{i}": (float(numbers[i]),) * 2 for i in range(3)}
        for kind in (GoalKind.NAN, GoalKind.INF, GoalKind.OVERFLOW, GoalKind.UNDERFLOW):
            query = Query(Goal(kind), (nodes[trial % len(nodes)],), ranges=ranges)
            given = {f"x{i}": np.array([numbers[i]], form.carrier) for i in range(3)}
            hit = bool(query.hits(given)[0])
            assert solve_exactly(query, lambda: 10.0).outcome == ("witness" if hit else "proof"), (query, numbers)


def test_rewrites_keep_the_value_of_ordinary_numbers():
    rng = np.random.default_rng(6)
    for form in (FLOAT32, FLOAT16):
        x = variables(4, form)
        wide = cast(cast(x[0], FLOAT32) * 0.1, form)
        places = {
            "fma": x[0] * x[1] + x[2],
            "reassociate": f.total(x),
            "reciprocal": x[0] / x[1],
            "rsqrt": x[0] / f.sqrt(x[1]),
            "exp-quotient": f.exp(x[0]) / f.exp(x[1]),
            "one-pass": f.variance(x),
            "wide": x[0] * x[1] * x[2] if form is FLOAT16 else None,
            "rounded-constant": wide if form is FLOAT16 else None,
        }
        assert set(places) == set(REWRITES)
        data = {f"x{i}": form.round(rng.uniform(1, 3, 100)) for i in range(4)}
        for name, root in places.items():
            if root is None:
                continue
            (other,) = rewritten(name, (root,))
            assert other is not root
            found = evaluate([root, other], data)
            np.testing.assert_allclose(found[root], found[other], rtol=40 * form.epsilon, atol=40 * form.epsilon)
    assert rewritten("fma", (x[0] + x[1],)) is None


def test_goals_and_dtypes_are_parsed_with_a_sentence_for_what_is_wrong():
    goals = parse_goals("nan, error:1e-3,diverge:fma,diverge:one-pass/wide", list(REWRITES))
    assert [str(goal) for goal in goals] == ["nan", "error:0.001", "diverge:plain/fma", "diverge:one-pass/wide"]
    assert len(parse_goals("diverge", list(REWRITES))) == len(REWRITES)
    assert parse_format("half") is FLOAT16
    for text in ("nann", "error:x", "error:-1", "diverge:fmaa", "diverge:fma/fma", "nan:3", ","):
        with pytest.raises(DriftlineError, match="--goal"):
            parse_goals(text, list(REWRITES))
    with pytest.raises(DriftlineError, match="float64"):
        parse_format("float61")
