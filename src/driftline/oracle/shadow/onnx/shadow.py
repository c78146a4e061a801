"""The shadow of an ONNX model: its graph, executed in float64 with and without rounding errors.

An evaluator of the ONNX project visits the graph node by node, including the graphs inside If, Loop and Scan. Each node
is passed to the current run. The records of a node are keyed by the names of its results and by how often it ran
before, because a node inside a loop runs many times.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from driftline.core.tensors import Array, Arrays
from driftline.oracle.arithmetic import IEEE, Arithmetic
from driftline.oracle.noise import NoiseSource, narrowed
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.shadow.call import Call
from driftline.oracle.shadow.decisions import FEW_ORDERS, ORDERS, Decision, choice_runs, touched
from driftline.oracle.shadow.onnx.affine_chains import constants_of
from driftline.oracle.shadow.onnx.composites import COMPOSITES
from driftline.oracle.shadow.onnx.decisions import Choice, axis_of, index_result, own_errors, unsettled_by
from driftline.oracle.shadow.onnx.open import ALTERNATIVES
from driftline.oracle.shadow.onnx.parts import promoted, taken_apart
from driftline.oracle.shadow.onnx.plan import RANDOM, Plan, Planner
from driftline.oracle.shadow.onnx.rules import EXPONENTIAL
from driftline.oracle.shadow.onnx.runs import (
    Key,
    OnnxAlternative,
    OnnxAlternativeRun,
    OnnxMeasuringRun,
    OnnxNoisyRun,
    OnnxPushedRun,
    OnnxRun,
    OnnxRunMemory,
)
from driftline.oracle.shadow.onnx.steps import Steps
from driftline.oracle.shadow.onnx.walk import evaluated, in_doubles, stored_types, walked_by
from driftline.oracle.shadow.open_runs import READINGS, OpenRuns
from driftline.oracle.shadow.quantised import pushed_runs
from driftline.programs.onnx.evaluator import make_evaluator

ROUNDINGS_OF_A_COMPOSITE = 8  # per result; no composite has a longer chain of roundings
KEPT_BYTES = 1 << 16
# the result of a choice may pass through these
_RESHAPES = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}


class OnnxShadow:
    """Executes a model once as the reference, then with the rounding errors of legal implementations, and, where
    rounding can decide something, with the deciding values pushed as far as is legal."""

    def __init__(self, model: Any, arrays: Arrays, arithmetic: Arithmetic = IEEE) -> None:
        model = taken_apart(model)
        self._arithmetic = arithmetic
        self._memory = OnnxRunMemory(stored_types(model, arrays))
        self._evaluator = make_evaluator(promoted(model), walked_by(self._step))
        self._planner = Planner(self._memory.types, arithmetic, int(self._evaluator.opsets.get("", 1)))
        self._feed = {name: _lifted(arrays[name]) for name in self._evaluator.input_names if name in arrays}
        self._doubles = self._narrowed()
        self._makers = {name: node for node in self._evaluator.rt_nodes_ for name in node.output if name}
        self._constants = constants_of(self._evaluator.rt_inits_, self._evaluator.rt_nodes_, self._feed)
        self._turns: Counter[tuple[str, ...]] = Counter()
        self._run: OnnxRun = OnnxRun(self._memory)
        self._known: dict[Key, tuple[list[Any], tuple[Any, ...]]] = {}  # arguments and results in the reference run
        self._choices: dict[Key, tuple[Array, Array]] = {}  # choices of the reference run: indices and values
        self._forced: dict[Key, Array] = {}
        self._draws = False
        self._chooses = False  # True if any node chooses, also inside other nodes
        self._tossed: dict[Key, tuple[Any, Array]] = {}  # choices that change when they are pushed
        self._decided: dict[Key, tuple[Any, list[tuple[int, ...]]]] = {}  # deciding nodes, the shapes of their results

    @property
    def draws(self) -> bool:
        return self._draws

    @property
    def unruled(self) -> set[str]:
        return self._memory.unruled

    @property
    def roundings(self) -> int:
        return self._memory.roundings

    @property
    def terms(self) -> int:
        return self._memory.terms

    @property
    def uses(self) -> set[str]:
        operators = self._planner.operators
        found = set(self._memory.types.values()) - {""}
        found |= {"exponential"} if operators & EXPONENTIAL else set()
        found |= {"subnormal"} if self._memory.subnormal else set()
        return found | ({"quantised"} if self._planner.requantises else set())

    def reference(self) -> Arrays:
        self._memory.roundings, self._memory.terms = 0, 1
        return self._play(OnnxMeasuringRun(self._memory, self._constants))

    def sample(self, number: int) -> Arrays:
        """Execute the graph with random errors, whose sizes are those of the reference run, and return the outputs."""
        return self._tried(OnnxNoisyRun(self._memory, NoiseSource(number, self._arithmetic, on_grid=number % 2 == 0)))

    def is_deciding(self) -> bool:
        """True if rounding can change a step or a choice. Known only after some samples."""
        requantised = self._arithmetic.requantise and self._planner.requantises
        return bool(requantised) or any(decision.open for decision in self._memory.decisions.values())

    def pushed(self) -> list[Arrays]:
        """Return the outputs of runs in which every step and choice is pushed, or an empty list if no decision is
        open."""
        if not self.is_deciding():
            return []
        return [self._tried(OnnxPushedRun(self._memory, run)) for run in pushed_runs(self._arithmetic)]

    def alternatives(self) -> OpenRuns:
        """Execute runs in which open elements have other values; return their outputs and the clauses that apply."""
        memory = self._memory
        values = (*ALTERNATIVES, *choice_runs(memory.open_indices))
        orders = ORDERS if self._chooses else FEW_ORDERS
        bound, free = (self._changed((*values, *orders), memory.open_of(bound=is_bound)) for is_bound in (True, False))
        readings = self._changed(READINGS, memory.open_of(bound=True))
        wavering = self._wavering()
        if not wavering:
            return OpenRuns(free, bound, readings, frozenset(memory.clauses))
        choosing = self.choice_outputs()  # these outputs are judged as choices
        for changed in self._changed(values, wavering):
            free.append({name: array for name, array in changed.items() if name not in choosing})
        return OpenRuns(free, bound, readings, frozenset({*memory.clauses, "rounding-decides"}))

    def _changed(self, values: Iterable[OnnxAlternative], masks: dict[Key, dict[int, Array]]) -> list[Arrays]:
        """Return the outputs of one run per value, with the masked elements replaced by that value; empty without
        masks."""
        return [self._tried(OnnxAlternativeRun(self._memory, value, masks)) for value in values if masks]

    def _wavering(self) -> dict[Key, dict[int, Array]]:
        """Return masks of the elements that rounding changes by a jump: choices that change when pushed, and elements
        that are finite or not."""
        found = {key: {index_result(node) or 0: mask} for key, (node, mask) in self._tossed.items()}
        for key, decision in self._memory.decisions.items():
            node, shapes = self._decided[key]
            for position, argument in decision.arguments.items():
                unsettled = unsettled_by(node, position, argument)
                if np.any(unsettled):
                    masks = found.setdefault(key, {})
                    for index, mask in enumerate(touched(np.asarray(unsettled), axis_of(node), shapes)):
                        masks[index] = masks[index] | mask if index in masks else mask
        return found

    def _tried(self, run: OnnxRun) -> Arrays:
        """Execute a run that departs from the reference and return its outputs. If the graph fails, as when a size
        changed, return outputs of a shape that fits nothing, so that they are ignored."""
        try:
            return self._play(run)
        except NoExactReference:
            return {name: np.full((0,) * 9, np.nan) for name in self._evaluator.output_names}

    def force(self, outputs: Arrays) -> dict[str, str]:
        """Adopt the choices that a compiler returned. For each output that is a choice, return why it is not valid, or
        an empty string; valid choices apply to all later runs. Needs a reference run and samples."""
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
            left_open = self._memory.open.get(key, {}).get(index_result(node) or 0)
            judged = chosen if left_open is None else np.where(left_open, expected, chosen)
            argument = self._memory.decisions[key].arguments.get(0)
            problems[name] = Choice.of(node).problem(argument, expected, judged, wanted)
            if not problems[name]:
                self._forced[key] = chosen
        return problems

    def choice_outputs(self) -> set[str]:
        return {name for name in self._evaluator.output_names if self._choice_behind(name) is not None}

    def _is_returned(self, node: Any) -> bool:
        return any(self._choice_behind(name) is node for name in self._evaluator.output_names)

    def _choice_behind(self, name: str) -> Any:
        """Return the choosing node whose indices this value holds, possibly reshaped since, or `None`."""
        while name in self._makers:
            node = self._makers[name]
            index = index_result(node)
            if index is not None and node.output[index] == name:
                return node
            if node.op_type not in _RESHAPES:
                return None
            name = node.input[0]
        return None

    def _play(self, run: OnnxRun) -> Arrays:
        self._run, self._turns = run, Counter()
        with np.errstate(all="ignore"):
            results = self._evaluator.run(None, {**self._feed, **run.given(self._doubles)})
        names = self._evaluator.output_names
        return {n: np.asarray(r) for n, r in zip(names, results, strict=True) if isinstance(r, np.ndarray | np.generic)}

    def _narrowed(self) -> dict[str, tuple[Array, Array]]:
        """Return the inputs and constants that the target rounds before it computes, with the size of that error."""
        found = {}
        for name, value in {**self._evaluator.rt_inits_, **self._feed}.items():
            size = narrowed(value, self._arithmetic, self._memory.types.get(name, ""))
            if size is not None:
                found[name] = value, size
        return found

    def _step(self, node: Any, inputs: list[Any], context: dict[str, Any]) -> tuple[Any, ...]:
        plan = self._planner.plan(node)
        if plan.container:  # the nodes inside are passed to this method themselves
            return evaluated(node, inputs, context)
        key = self._key(plan.names)
        self._chooses |= index_result(node) is not None
        dtypes = plan.dtypes
        if plan.may_be_random and _draws(node, inputs):
            self._draws = True
            told = f"{node.op_type} draws random numbers: the result of one run says nothing about another's"
            raise NoExactReference(told)
        if plan.composite and dtypes[0] is not None:
            steps = Steps(dtypes[0], self._arithmetic, self._run.noise)
            results = in_doubles(node, lambda: COMPOSITES[node.op_type](steps, node, inputs, plan.attributes))
            self._run.count(sum(r.size for r in results) * ROUNDINGS_OF_A_COMPOSITE, float(inputs[0].size))
            return self._run.leave_open(key, node, inputs, results)
        if plan.decides:
            return self._decide(key, node, inputs, context, plan)
        results = self._evaluated(key, node, inputs, context)
        return self._rounded(key, node, inputs, self._run.leave_open(key, node, inputs, results), plan)

    def _evaluated(self, key: Key, node: Any, inputs: list[Any], context: dict[str, Any]) -> tuple[Any, ...]:
        """Evaluate the node. If no error has reached its arguments, they are the arrays of the reference run, and so
        are the returned results."""
        known = self._known.get(key)
        if known and all(map(operator.is_, inputs, known[0])) and not context:
            return known[1]
        results = tuple(_lifted(r) for r in evaluated(node, inputs, context))
        if isinstance(self._run, OnnxMeasuringRun) and all(_is_small(value) for value in (*inputs, *results)):
            self._known[key] = inputs, results
        return results

    def _decide(self, key: Key, node: Any, inputs: list[Any], context: dict[str, Any], plan: Plan) -> tuple[Any, ...]:
        values = {i: v for i, v in enumerate(inputs) if isinstance(v, np.ndarray) and v.dtype == np.float64}
        decision = self._memory.decisions.setdefault(key, Decision())
        first = next((t for t in map(self._memory.types.get, node.input) if t), None)
        own = own_errors(node, values, first, self._arithmetic)
        moved = self._run.decide(decision, values, own)
        results = self._evaluated(key, node, [moved.get(i, v) for i, v in enumerate(inputs)], context)
        if isinstance(self._run, OnnxMeasuringRun):
            self._decided[key] = node, [np.shape(result) for result in results]
        if plan.requantises and results[0].dtype.kind in "iu":
            results = (self._run.requantise(results[0], self._arithmetic.requantise), *results[1:])
        results = self._chosen(key, node, inputs, results)
        return self._rounded(key, node, inputs, self._run.leave_open(key, node, inputs, results), plan)

    def _chosen(self, key: Key, node: Any, inputs: list[Any], results: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the results with the compiler's choice in place of the shadow's own, if it was found valid."""
        index = index_result(node)
        if index is None:
            return results
        if isinstance(self._run, OnnxMeasuringRun):
            self._choices[key] = (results[index], results[0])
        elif isinstance(self._run, OnnxPushedRun) and key not in self._forced:
            self._toss(key, node, inputs[0], results[index])
        chosen = self._forced.get(key, results[index])
        if index == 0:
            return (chosen,)
        # The values are picked from the original arguments, not from those pushed to make the choice.
        choice = Choice.of(node)
        if choice.axis is None:
            return (evaluated(node, inputs, {})[0] if isinstance(self._run, OnnxPushedRun) else results[0], chosen)
        return (choice.picked(inputs[0], chosen, results[0]), chosen)

    def _toss(self, key: Key, node: Any, among: Array, chosen: Array) -> None:
        """Record where a pushed choice differs from the reference, unless the choice is returned and so judged
        itself."""
        expected = self._choices[key][0]
        if chosen.shape != expected.shape or np.array_equal(chosen, expected) or self._is_returned(node):
            return
        mask = chosen != expected
        if among.ndim == chosen.ndim:  # if one index is taken, another is not: mark the whole axis
            (mask,) = touched(mask, axis_of(node), [chosen.shape])
        known = self._tossed.get(key)
        self._tossed[key] = node, mask if known is None else known[1] | mask
        self._memory.open_indices = max(self._memory.open_indices, int(max(chosen.max(), expected.max())) + 1)

    def _rounded(self, key: Key, node: Any, inputs: list[Any], results: tuple[Any, ...], plan: Plan) -> tuple[Any, ...]:
        if plan.exact:
            return results
        floats = tuple(
            dtype if isinstance(result, np.ndarray) and result.dtype.kind in "fc" else None
            for result, dtype in zip(results, plan.dtypes, strict=False)
        )
        if not any(floats):
            return results
        return self._run.round(key, Call(node, tuple(inputs), plan.attributes, results, floats, self._arithmetic))

    def _key(self, names: tuple[str, ...]) -> Key:
        self._turns[names] += 1
        return names, self._turns[names] - 1


def _draws(node: Any, inputs: list[Any]) -> bool:
    """True if the node draws random numbers, with or without a seed of its own: no two runtimes share a generator."""
    name = node.op_type
    training = name == "Dropout" and len(inputs) > 2 and inputs[2] is not None and bool(np.any(inputs[2]))
    return name in RANDOM or (training and (inputs[1] is None or bool(np.any(inputs[1]))))


def _lifted(value: Any) -> Any:
    """Convert small floats to doubles. Types of eight bits or fewer are kept, because operators expect these codes."""
    if not isinstance(value, np.ndarray) and not isinstance(value, np.generic):
        return value
    array = np.asarray(value)
    if array.dtype.char in "dlb?":  # by far the most frequent, and computing the name of a dtype is slow
        return array
    if array.dtype.name in ("float32", "float16", "bfloat16"):
        return array.astype(np.float64)
    return array.astype(np.complex128) if array.dtype.name == "complex64" else array


def _is_small(value: Any) -> bool:
    """True if the value is small enough to be stored between runs."""
    return not isinstance(value, np.ndarray) or value.nbytes <= KEPT_BYTES
