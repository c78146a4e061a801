"""The forms of every operator, held against each other and against what the type rule says.

A form of ours that means something else than its neighbours would be reported as somebody's bug. So each operator runs
in all its languages, with every dtype it claims, on ordinary numbers and on special ones; what the languages leave open
is listed, with the reason, in `form_exceptions`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection

import ml_dtypes
import numpy as np
import pytest

from driftline.core.tensors import DTYPES, Array, is_float, numpy_dtype
from driftline.generate.graph import Graph
from driftline.generate.table import OPERATORS

from form_exceptions import ABSOLUTE, OPEN, SUMS  # isort: skip
from form_runs import KINDS, Runner, numbers, one_node, out_of_range  # isort: skip

jax = pytest.importorskip("jax")
pytest.importorskip("torch")
pytest.importorskip("onnx")
jax.config.update("jax_enable_x64", True)

LANGUAGES = ("torch", "onnx", "jnp")
SEEDS = (0, 1, 2)
UNITS = 8  # in the last place: a few roundings of a composition, and those of each library's functions


def _one_seed(name: str, dtype: str) -> list[int]:
    """Of the seeds, each dtype of an operator has one."""
    return [SEEDS[zlib.crc32(f"{name} {dtype}".encode()) % len(SEEDS)]]


@pytest.mark.parametrize("name", OPERATORS)
def test_the_type_rule_says_what_each_form_gives(name: str) -> None:
    assert _hold_to_the_rule(name, LANGUAGES, lambda dtype: _one_seed(name, dtype)), "no shape fits this operator"


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_the_type_rule_says_what_each_form_gives_for_every_seed(name: str) -> None:
    _hold_to_the_rule(name, LANGUAGES, lambda dtype: SEEDS)


def _hold_to_the_rule(name: str, languages: Collection[str], seeds: Callable[[str], Collection[int]]) -> int:
    """How many graphs were tried."""
    operator = OPERATORS[name]
    tried = 0
    for language in languages:
        form = operator.form(language)
        for dtype in form.dtypes if form else ():
            for seed in seeds(dtype):
                graph = one_node(operator, dtype, seed, language)
                if graph is None:
                    continue
                tried += 1
                told = [(t.dtype, t.shape) for t in graph.nodes[0].outputs]
                assert _given(language, graph, seed) == told, f"{language} {_told(graph)}"
    return tried


def _given(language: str, graph: Graph, seed: int) -> list[tuple[str, tuple[int, ...]]]:
    runner = Runner(graph)
    if language == "jnp":
        return runner.jnp_types()
    return [(array.dtype.name, array.shape) for array in runner.run(language, numbers(graph, (), (), seed))]


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_and_onnx_agree(name: str) -> None:
    _hold_together(name, ["torch"], "onnx", DTYPES, lambda dtype: _one_seed(name, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_torch_and_onnx_agree_for_every_seed(name: str) -> None:
    _hold_together(name, ["torch"], "onnx", DTYPES, lambda dtype: SEEDS)


@pytest.mark.parametrize("name", OPERATORS)
def test_jnp_agrees(name: str) -> None:
    """Each is a compilation: one dtype, another for each operator."""
    form = OPERATORS[name].jnp
    if form:
        dtype = form.dtypes[zlib.crc32(name.encode()) % len(form.dtypes)]
        _hold_together(name, ["torch", "onnx"], "jnp", [dtype], lambda dtype: SEEDS[:1])


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_jnp_agrees_in_every_dtype(name: str) -> None:
    _hold_together(name, ["torch", "onnx"], "jnp", DTYPES, lambda dtype: SEEDS[:1])


def _hold_together(
    name: str, ones: Collection[str], other: str, dtypes: Collection[str], seeds: Callable[[str], Collection[int]]
) -> None:
    """Each of `ones` against the other, which is compiled once for all of them."""
    operator = OPERATORS[name]
    second = operator.form(other)
    firsts = {one: form.dtypes for one in ones if (form := operator.form(one))}
    if not second or not firsts:
        return
    wrong = []
    for dtype in [dtype for dtype in second.dtypes if dtype in dtypes]:
        for seed in seeds(dtype):
            graph = one_node(operator, dtype, seed, other)
            if graph is None:
                continue
            runner = Runner(graph)
            for one, taken in firsts.items():
                for kinds in ((), _kinds(graph, (one, other))) if dtype in taken else ():
                    inputs = numbers(graph, kinds, operator.edges, seed)
                    for want, have in zip(runner.run(one, inputs), runner.run(other, inputs), strict=True):
                        found = difference(want, have, _absolute(name, inputs, want))
                        if found:
                            wrong.append(f"{one} and {other}, {_told(graph)}, special: {' '.join(kinds)}: {found}")
    assert not wrong, "\n".join(wrong)


def _kinds(graph: Graph, languages: Collection[str]) -> Collection[str]:
    """The kinds of special values that mean the same in both languages."""
    name = graph.operators[0]
    rows = [row for row in OPEN if name in row.operators and not set(row.forms).isdisjoint(languages)]
    if out_of_range(graph):
        return ()
    return [kind for kind in KINDS if not any(kind in row.kinds for row in rows)]


def _absolute(name: str, inputs: list[Array], result: Array) -> float:
    """The magnitude of the terms whose rounding shows in the result, beyond the result itself."""
    if name in SUMS:
        known = [a for a in (*inputs, result) if is_float(a.dtype.name)]
        sizes = [float(np.max(np.abs(f[np.isfinite(f)]), initial=1.0)) for f in (a.astype(np.float64) for a in known)]
        return math.prod(sizes) * max(a.size for a in inputs) ** 0.5
    return max((row.size for row in ABSOLUTE if name in row.operators), default=0.0)


def difference(want: Array, have: Array, absolute: float) -> str:
    """What is wrong with the first that differ; empty when nothing is."""
    if want.shape != have.shape or want.dtype != have.dtype:
        return f"{want.dtype}{want.shape} and {have.dtype}{have.shape}"
    dtype = want.dtype.name
    if want.dtype.kind == "c":
        parts = [difference(part(want), part(have), absolute) for part in (np.real, np.imag)]
        return next((text for text in parts if text), "")
    if not is_float(dtype):
        bad = want != have
    else:
        limits = ml_dtypes.finfo(numpy_dtype(dtype))
        x, y = want.astype(np.float64), have.astype(np.float64)
        with np.errstate(all="ignore"):
            allowed = UNITS * float(limits.eps) * (np.abs(x) + absolute) + 128 * float(limits.tiny)
            near = np.abs(x - y) <= allowed
            most = float(limits.max) * (1 - UNITS * float(limits.eps))
            overflown = (np.abs(x) >= most) & (np.abs(y) >= most) & (np.sign(x) == np.sign(y))
        bad = ~(near | (np.isnan(x) & np.isnan(y)) | (x == y) | overflown)
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{int(bad.sum())} of {bad.size}, at {at}: {want[at]!r} and {have[at]!r}"


def _told(graph: Graph) -> str:
    types = ", ".join(str(leaf.type) for leaf in graph.leaves)
    return f"{graph.operators[0]}({types}) {dict(graph.nodes[0].attributes)}"
