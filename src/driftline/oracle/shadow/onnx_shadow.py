"""The shadow of an ONNX model: its graph, played in float64, with and without rounding errors.

The graph is walked by an evaluator of the ONNX project, node by node; each node passes through the run that is being
played, also in the graphs inside If, Loop and Scan. What a node did before is found by the names of its results and
how often it ran, since inside a loop it runs many times.
"""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftline.core.tensors import Array, Arrays
from driftline.oracle.arithmetic import IEEE, Arithmetic
from driftline.oracle.noise import NoiseSource
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.shadow.call import Call
from driftline.oracle.shadow.decisions import EXTREMES, SHUFFLES, Decision
from driftline.oracle.shadow.onnx_composites import COMPOSITES, is_composite
from driftline.oracle.shadow.onnx_decisions import Choice, decides, index_result, own_errors, touched, unsettled_by
from driftline.oracle.shadow.onnx_open import ALTERNATIVES, MOST_INDICES, index_range, open_elements, replaced
from driftline.oracle.shadow.onnx_parts import promoted, taken_apart
from driftline.oracle.shadow.onnx_rules import amplitudes, is_exact
from driftline.oracle.shadow.onnx_steps import Steps
from driftline.oracle.shadow.onnx_sums import terms_of
from driftline.oracle.shadow.onnx_walk import evaluated, stored_types, walked_by
from driftline.programs.onnx_evaluator import make_evaluator

Key = tuple[tuple[str, ...], int]
_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
ROUNDINGS_OF_A_COMPOSITE = 8  # for each result; no composite has more in a row before it is carried on
KEPT_BYTES = 1 << 16
_RESHAPES = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}  # a choice behind them is still one


@dataclass(frozen=True)
class _Plan:
    """What every run needs to know of a node."""

    node: Any  # kept, so that its id is not given to another
    container: bool
    names: tuple[str, ...]
    dtypes: tuple[str | None, ...]
    attributes: dict[str, Any]
    may_be_random: bool
    composite: bool
    decides: bool
    exact: bool


class OnnxShadow:
    """Plays a model: once as the reference, then with the rounding errors of legal implementations, and, where rounding
    can decide something, with the deciding values pushed as far as is legal."""

    def __init__(self, model: Any, arrays: Arrays, arithmetic: Arithmetic = IEEE) -> None:
        model = taken_apart(model)
        self._arithmetic = arithmetic
        self._types = stored_types(model, arrays)
        self._evaluator = make_evaluator(promoted(model), walked_by(self._step))
        self._opset = int(self._evaluator.opsets.get("", 1))
        self._feed = {name: _lifted(arrays[name]) for name in self._evaluator.input_names if name in arrays}
        self._makers = {name: node for node in self._evaluator.rt_nodes_ for name in node.output if name}
        self._turns: Counter[tuple[str, ...]] = Counter()
        self._plans: dict[int, _Plan] = {}
        self._run: _Run = _Run(self)
        self._known: dict[Key, tuple[list[Any], tuple[Any, ...]]] = {}  # arguments and results in the reference run
        self._sizes: dict[Key, list[Array | None]] = {}
        self._decisions: dict[Key, Decision] = {}
        self._choices: dict[Key, tuple[Array, Array]] = {}  # what the reference run chose: places and values
        self._forced: dict[Key, Array] = {}
        self._tossed: dict[Key, tuple[Any, Array]] = {}  # choices that come out otherwise when they are pushed
        self._decided: dict[Key, tuple[Any, list[tuple[int, ...]]]] = {}  # deciding nodes, the shapes of their results
        self._open: dict[Key, dict[int, Array]] = {}  # elements that the specification leaves open
        self._open_indices = 0  # among how many places an open choice is made
        self._clauses: set[str] = set()
        self.unruled: set[str] = set()  # operators for which there is no rule
        self.roundings = 0
        self.terms = 1

    def reference(self) -> Arrays:
        self.roundings, self.terms = 0, 1
        return self._play(_Reference(self))

    def sample(self, number: int) -> Arrays:
        """One run with errors. The size of each error is that of the reference run."""
        return self._tried(_Sample(self, NoiseSource(number, self._arithmetic, on_grid=number % 2 == 0)))

    def is_deciding(self) -> bool:
        """Did rounding move anything on which a step or a choice depends? Known after some samples."""
        return any(decision.open for decision in self._decisions.values())

    def pushed(self) -> list[Arrays]:
        """Runs in which every step and choice is pushed; none when there is nothing to push."""
        if not self.is_deciding():
            return []
        return [self._tried(_Pushed(self, run)) for run in range(EXTREMES + SHUFFLES)]

    def alternatives(self) -> tuple[list[Arrays], set[str]]:
        """Runs in which what the specification leaves open is something else, and the clauses that apply."""
        values = (*ALTERNATIVES, *range(min(self._open_indices, MOST_INDICES)))
        runs = [self._tried(_Alternative(self, value, self._open)) for value in values] if self._open else []
        wavering = self._wavering()
        if not wavering:
            return runs, self._clauses
        choosing = self.choice_outputs()  # what was chosen is judged as a choice
        for value in values:
            changed = self._tried(_Alternative(self, value, wavering))
            runs.append({name: array for name, array in changed.items() if name not in choosing})
        return runs, self._clauses | {"rounding-decides"}

    def _wavering(self) -> dict[Key, dict[int, Array]]:
        """Elements that rounding makes one thing or another, without anything in between."""
        found = {key: {index_result(node) or 0: mask} for key, (node, mask) in self._tossed.items()}
        for key, decision in self._decisions.items():
            node, shapes = self._decided[key]
            for position, argument in decision.arguments.items():
                unsettled = unsettled_by(node, position, argument)
                if np.any(unsettled):
                    masks = found.setdefault(key, {})
                    for index, mask in enumerate(touched(node, np.asarray(unsettled), shapes)):
                        masks[index] = masks[index] | mask if index in masks else mask
        return found

    def _tried(self, run: _Run) -> Arrays:
        """A run that departs from the reference. Where that changed a size, the rest of the graph may not work with it:
        then its outputs have no shape that fits, and nothing is concluded from them."""
        try:
            return self._play(run)
        except NoExactReference:
            return {name: np.full((0,) * 9, np.nan) for name in self._evaluator.output_names}

    def force(self, outputs: Arrays) -> dict[str, str]:
        """Take over the choices that a compiler made and returned. For each output that is a choice: why it is not
        valid, or the empty string; valid ones hold in all later runs. Needs a reference run and samples."""
        problems: dict[str, str] = {}
        for name, given in outputs.items():
            node = self._choice_behind(name)
            key = (tuple(node.output), 0) if node is not None else None
            if key is None or key not in self._choices:
                continue
            expected, wanted = self._choices[key]
            if given.size != expected.size:
                problems[name] = "it has another number of elements"
                continue
            chosen = np.asarray(given).astype(expected.dtype).reshape(expected.shape)
            left_open = self._open.get(key, {}).get(index_result(node) or 0)
            judged = chosen if left_open is None else np.where(left_open, expected, chosen)
            problems[name] = Choice.of(node).problem(self._decisions[key].arguments.get(0), expected, judged, wanted)
            if not problems[name]:
                self._forced[key] = chosen
        return problems

    def choice_outputs(self) -> set[str]:
        return {name for name in self._evaluator.output_names if self._choice_behind(name) is not None}

    def _is_returned(self, node: Any) -> bool:
        return any(self._choice_behind(name) is node for name in self._evaluator.output_names)

    def _choice_behind(self, name: str) -> Any:
        """The choosing node that made this value, perhaps reshaped since."""
        while name in self._makers:
            node = self._makers[name]
            index = index_result(node)
            if index is not None and node.output[index] == name:
                return node
            if node.op_type not in _RESHAPES:
                return None
            name = node.input[0]
        return None

    def _play(self, run: _Run) -> Arrays:
        self._run, self._turns = run, Counter()
        with np.errstate(all="ignore"):
            results = self._evaluator.run(None, self._feed)
        names = self._evaluator.output_names
        return {n: np.asarray(r) for n, r in zip(names, results, strict=True) if isinstance(r, np.ndarray | np.generic)}

    def _step(self, node: Any, inputs: list[Any], context: dict[str, Any]) -> tuple[Any, ...]:
        plan = self._plans.get(id(node))
        if plan is None:
            plan = self._plans[id(node)] = self._planned(node)
        if plan.container:  # what is inside passes through here itself
            return evaluated(node, inputs, context)
        key = self._key(plan.names)
        dtypes = plan.dtypes
        if plan.may_be_random:
            _refuse_random(node, inputs)
        if plan.composite and dtypes[0] is not None:
            steps = Steps(dtypes[0], self._arithmetic, self._run.noise)
            results = COMPOSITES[node.op_type](steps, node, inputs, plan.attributes)
            self._run.count(sum(r.size for r in results) * ROUNDINGS_OF_A_COMPOSITE, float(inputs[0].size))
            return self._run.leave_open(key, node, inputs, results)
        if plan.decides:
            return self._decide(key, node, inputs, context, plan)
        results = self._evaluated(key, node, inputs, context)
        return self._rounded(key, node, inputs, self._run.leave_open(key, node, inputs, results), plan)

    def _evaluated(self, key: Key, node: Any, inputs: list[Any], context: dict[str, Any]) -> tuple[Any, ...]:
        """What the node makes of these arguments. As long as no error has reached them, they are the very arrays of the
        reference run, and so are the results."""
        known = self._known.get(key)
        if known and all(map(operator.is_, inputs, known[0])) and not context:
            return known[1]
        results = tuple(_lifted(r) for r in evaluated(node, inputs, context))
        if isinstance(self._run, _Reference) and all(_is_small(value) for value in (*inputs, *results)):
            self._known[key] = inputs, results
        return results

    def _planned(self, node: Any) -> _Plan:
        """What is the same every time a node runs, found out once: a graph is played dozens of times."""
        attributes = _attributes(node)
        return _Plan(
            node=node,
            container=_is_container(node),
            names=tuple(node.output),
            dtypes=self._dtypes(node),
            attributes=attributes,
            may_be_random=node.op_type in _RANDOM or node.op_type == "Dropout",
            composite=is_composite(node, self._opset),
            decides=decides(node, self._leaves_floats(node)),
            exact=self._is_exact(node, attributes),
        )

    def _decide(self, key: Key, node: Any, inputs: list[Any], context: dict[str, Any], plan: _Plan) -> tuple[Any, ...]:
        values = {i: v for i, v in enumerate(inputs) if isinstance(v, np.ndarray) and v.dtype == np.float64}
        decision = self._decisions.setdefault(key, Decision())
        first = next((t for t in map(self._types.get, node.input) if t), None)
        own = own_errors(node, values, first, self._arithmetic)
        moved = self._run.decide(decision, values, own)
        results = self._evaluated(key, node, [moved.get(i, v) for i, v in enumerate(inputs)], context)
        if isinstance(self._run, _Reference):
            self._decided[key] = node, [np.shape(result) for result in results]
        results = self._chosen(key, node, inputs, results)
        return self._rounded(key, node, inputs, self._run.leave_open(key, node, inputs, results), plan)

    def _chosen(self, key: Key, node: Any, inputs: list[Any], results: tuple[Any, ...]) -> tuple[Any, ...]:
        """The choice of the compiler in place of our own, where it was found valid."""
        index = index_result(node)
        if index is None:
            return results
        if isinstance(self._run, _Reference):
            self._choices[key] = (results[index], results[0])
        elif isinstance(self._run, _Pushed) and key not in self._forced:
            self._toss(key, node, inputs[0], results[index])
        chosen = self._forced.get(key, results[index])
        if index == 0:
            return (chosen,)
        # The values are taken from where they lie, not from the arguments that were pushed to make the choice.
        choice = Choice.of(node)
        if choice.axis is None:
            return (evaluated(node, inputs, {})[0] if isinstance(self._run, _Pushed) else results[0], chosen)
        return (choice.picked(inputs[0], chosen, results[0]), chosen)

    def _toss(self, key: Key, node: Any, among: Array, chosen: Array) -> None:
        """Note where a pushed choice differs, unless it is returned: then the one that was made counts."""
        expected = self._choices[key][0]
        if chosen.shape != expected.shape or np.array_equal(chosen, expected) or self._is_returned(node):
            return
        mask = chosen != expected
        if among.ndim == chosen.ndim:  # one place that is taken is another one's loss: all along the axis
            (mask,) = touched(node, mask, [chosen.shape])
        known = self._tossed.get(key)
        self._tossed[key] = node, mask if known is None else known[1] | mask
        self._open_indices = max(self._open_indices, int(max(chosen.max(), expected.max())) + 1)

    def _rounded(
        self, key: Key, node: Any, inputs: list[Any], results: tuple[Any, ...], plan: _Plan
    ) -> tuple[Any, ...]:
        if plan.exact:
            return results
        floats = tuple(
            dtype if isinstance(result, np.ndarray) and result.dtype.kind in "fc" else None
            for result, dtype in zip(results, plan.dtypes, strict=False)
        )
        if not any(floats):
            return results
        return self._run.round(key, Call(node, tuple(inputs), plan.attributes, results, floats, self._arithmetic))

    def _is_exact(self, node: Any, attributes: dict[str, Any]) -> bool:
        if node.op_type not in ("Cast", "CastLike"):
            return is_exact(node.op_type, attributes)
        before, after = self._types.get(node.input[0]), self._types.get(node.output[0])
        if not after:
            return True
        if not before:
            return False
        arithmetic = self._arithmetic
        return arithmetic.unit(after) <= arithmetic.unit(before) and arithmetic.largest(after) >= arithmetic.largest(
            before
        )

    def _leaves_floats(self, node: Any) -> bool:
        """Is it a cast of a float to an integer, a boolean, or a float so small that it is kept as it is?"""
        if node.op_type not in ("Cast", "CastLike") or not self._types.get(node.input[0]):
            return False
        after = self._types.get(node.output[0], "")
        return not after or after.startswith("float8")

    def _dtypes(self, node: Any) -> tuple[str | None, ...]:
        """The float types in which the program stores the results; for unknown ones, that of an argument."""
        known = [self._types.get(name) for name in node.input]
        usual = next((t for t in known if t), None)
        return tuple(self._types.get(name, usual or "") or None for name in node.output)

    def _key(self, names: tuple[str, ...]) -> Key:
        self._turns[names] += 1
        return names, self._turns[names] - 1


class _Run:
    """What is particular to one way of playing the graph."""

    noise: NoiseSource | None = None

    def __init__(self, shadow: OnnxShadow) -> None:
        self.shadow = shadow

    def decide(self, decision: Decision, values: dict[int, Array], own: dict[int, Array]) -> dict[int, Array]:
        """The float arguments with which the operator decides, by position."""
        return values

    def leave_open(self, key: Key, node: Any, inputs: list[Any], results: tuple[Any, ...]) -> tuple[Any, ...]:
        return results

    def round(self, key: Key, call: Call) -> tuple[Any, ...]:
        return call.results

    def count(self, roundings: int, terms: float) -> None:
        """So many results are rounded here, of so many numbers each."""


class _Reference(_Run):
    """Finds out how large an error each operator may make."""

    def decide(self, decision: Decision, values: dict[int, Array], own: dict[int, Array]) -> dict[int, Array]:
        decision.observe_reference(values, own)
        return values

    def leave_open(self, key: Key, node: Any, inputs: list[Any], results: tuple[Any, ...]) -> tuple[Any, ...]:
        for index, result in enumerate(results):
            found = open_elements(node, inputs, result, self.shadow._types.get(node.output[index], ""))
            if found:
                self.shadow._clauses.add(found[0])
                self.shadow._open_indices = max(self.shadow._open_indices, index_range(node, inputs))
                self.shadow._open.setdefault(key, {})[index] = found[1]
        return results

    def round(self, key: Key, call: Call) -> tuple[Any, ...]:
        self.shadow._sizes[key], known = amplitudes(call)
        if not known:
            self.shadow.unruled.add(str(call.target.op_type))
        self.count(sum(size.size for size in self.shadow._sizes[key] if size is not None), terms_of(call))
        return call.results

    def count(self, roundings: int, terms: float) -> None:
        self.shadow.roundings += roundings
        self.shadow.terms = max(self.shadow.terms, int(terms))


class _Sample(_Run):
    """Makes errors of that size."""

    def __init__(self, shadow: OnnxShadow, noise: NoiseSource) -> None:
        super().__init__(shadow)
        self.noise: NoiseSource = noise

    def decide(self, decision: Decision, values: dict[int, Array], own: dict[int, Array]) -> dict[int, Array]:
        decision.observe(values)
        return values

    def round(self, key: Key, call: Call) -> tuple[Any, ...]:
        sizes = self.shadow._sizes.get(key)
        if sizes is None or not _fit(sizes, call.results):  # the run went another way than the reference
            sizes, _ = amplitudes(call)
        return tuple(
            result if size is None or dtype is None else np.asarray(self.noise.disturb(result, size, dtype))
            for result, size, dtype in zip(call.results, sizes, call.dtypes, strict=True)
        )


class _Pushed(_Run):
    """Pushes what decides."""

    def __init__(self, shadow: OnnxShadow, run: int) -> None:
        super().__init__(shadow)
        self._number = run
        self._random = np.random.default_rng(run)

    def decide(self, decision: Decision, values: dict[int, Array], own: dict[int, Array]) -> dict[int, Array]:
        return decision.pushed(values, self._number, self._random)


class _Alternative(_Run):
    """Makes something else of what is left open."""

    def __init__(self, shadow: OnnxShadow, value: int | None, masks: dict[Key, dict[int, Array]]) -> None:
        super().__init__(shadow)
        self._value = value
        self._masks = masks

    def leave_open(self, key: Key, node: Any, inputs: list[Any], results: tuple[Any, ...]) -> tuple[Any, ...]:
        changed = list(results)
        for index, mask in self._masks.get(key, {}).items():
            if mask.shape == results[index].shape:
                changed[index] = replaced(node, inputs, results[index], mask, self._value)
        return tuple(changed)


def _is_container(node: Any) -> bool:
    from onnx.reference.op_run import OpFunction

    return isinstance(node, OpFunction) or bool(node.need_context()) or bool(getattr(node, "has_subgraph", False))


def _attributes(node: Any) -> dict[str, Any]:
    return {name: getattr(node, name) for name in node.attributes_names_}


def _refuse_random(node: Any, inputs: list[Any]) -> None:
    name = node.op_type
    training = name == "Dropout" and len(inputs) > 2 and inputs[2] is not None and bool(np.any(inputs[2]))
    if name in _RANDOM or (training and (inputs[1] is None or bool(np.any(inputs[1])))):
        raise NoExactReference(f"{name} draws random numbers: the result of one run says nothing about another's")


def _lifted(value: Any) -> Any:
    """Small floats as doubles. Types with eight bits or fewer stay: they hold codes, and operators ask for them."""
    if not isinstance(value, np.ndarray) and not isinstance(value, np.generic):
        return value
    array = np.asarray(value)
    if array.dtype.char in "dlb?":  # by far the most frequent, and the name of a dtype is slow to find out
        return array
    if array.dtype.name in ("float32", "float16", "bfloat16"):
        return array.astype(np.float64)
    return array.astype(np.complex128) if array.dtype.name == "complex64" else array


def _is_small(value: Any) -> bool:
    """May it be kept? A large model has too many large values for that."""
    return not isinstance(value, np.ndarray) or value.nbytes <= KEPT_BYTES


def _fit(sizes: list[Array | None], results: tuple[Any, ...]) -> bool:
    return len(sizes) == len(results) and all(
        size is None or size.shape == result.shape for size, result in zip(sizes, results, strict=True)
    )
