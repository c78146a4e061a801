"""Draws schedules from the search spaces of MetaSchedule, TVM's own tuner: these are legal by TVM's own account.

A point of a space is a trace of TVM's. It is rewritten as a trace of ours, step by step, so that it is replayed,
reduced and exported like any other. Annotations are left out: the postprocessors have turned them into primitives.
"""

from __future__ import annotations

import random
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from driftline.core.text import telling_line
from driftline.schedules.functions import TensorFunction
from driftline.schedules.performing import prim_func
from driftline.schedules.trace import LoopAt, ScheduleStep


class NoPoint(Exception):
    """Raised, with the reason, when the tuner has no point to draw. The tuner is not under test."""


CORES = 4  # for which the tuner makes parallel loops


def import_meta(_: object = None) -> None:
    """Import the tuner once, before workers are forked. It would import the intrinsics of all processors, which takes
    minutes on a busy machine; plain LLVM uses none, so an empty module replaces them."""
    sys.modules.setdefault("tvm.s_tir.tensor_intrin", types.ModuleType("tvm.s_tir.tensor_intrin"))
    import tvm.s_tir.meta_schedule  # noqa: F401


def draw_from_space(function: TensorFunction, sizes: Mapping[str, int], rng: random.Random) -> tuple[ScheduleStep, ...]:
    """Draw a random point of the function's search space, and return its steps. Raises `NoPoint`."""
    import tvm

    module = tvm.IRModule({"main": prim_func(function, sizes)})
    try:
        schedule = _drawn_point(module, rng)
    except Exception as error:
        raise NoPoint(f"MetaSchedule: {type(error).__name__}: {telling_line(str(error))}") from error
    if schedule is None:
        raise NoPoint("MetaSchedule: a postprocessor drops this point")
    return rewritten(module, schedule.trace)


def _drawn_point(module: Any, rng: random.Random) -> Any:
    """Return a schedule with random decisions, as the tuner would try it, or None if the tuner would drop it."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    rules = ms.space_generator.PostOrderApply(  # the same on every processor
        sch_rules=ms.ScheduleRule.create("llvm"), postprocs=ms.Postproc.create("llvm"), mutator_probs={}
    )
    target = tvm.target.Target({"kind": "llvm", "num-cores": CORES})
    seed = rng.randrange(1, 1 << 30)
    context = ms.TuneContext(mod=module, target=target, space_generator=rules, rand_state=seed, num_threads=1)
    undecided = tvm.s_tir.Trace(rng.choice(list(context.generate_design_space())).trace.insts, {})
    schedule = tvm.s_tir.Schedule(module, seed=rng.randrange(1, 1 << 30), error_render_level="none")
    undecided.apply_to_schedule(schedule, remove_postproc=False)
    return schedule if all(one.apply(schedule) for one in rules.postprocs) else None


def rewritten(module: Any, trace: Any) -> tuple[ScheduleStep, ...]:
    """Convert a TVM trace to Driftline's steps. Earlier instructions are applied first, so that blocks and loops have
    the names that they have at that point."""
    import tvm

    told = trace.as_json()
    decisions = {int(index): decision for index, decision in told[1]}
    steps: list[ScheduleStep] = []
    replay = _Replay(tvm.s_tir.Schedule(module, error_render_level="none"))
    for index, (kind, inputs, attributes, outputs) in enumerate(told[0]):
        steps += replay.follow(kind, list(inputs), list(attributes), list(outputs), decisions.get(index))
    return tuple(steps)


class _Replay:
    """Carries out TVM's instructions on a schedule, and remembers the values of their variables."""

    def __init__(self, schedule: Any) -> None:
        self._schedule = schedule
        self._variables: dict[str, Any] = {}

    def follow(
        self, kind: str, inputs: list[Any], attributes: list[Any], outputs: list[str], decision: Any
    ) -> list[ScheduleStep]:
        schedule = self._schedule
        given = [self._value(one) for one in inputs]
        steps: list[ScheduleStep] = []
        made: Any = None
        if kind in _LOOKUPS:
            made = _LOOKUPS[kind](schedule, given, attributes)
        elif kind == "SampleComputeLocation":
            made = schedule.sample_compute_location(given[0], decision=int(decision))
        elif kind.startswith("Sample"):
            made = _decided(kind, decision, attributes)
        elif kind in _STEPS:
            name, call = _STEPS[kind]
            step = self._step(name, given, attributes)
            if step is not None:
                steps.append(step)
            made = call(schedule, given, attributes)
        elif kind not in ("Annotate", "Unannotate", "EnterPostproc"):
            raise NoPoint(f"the instruction {kind} has no step of ours")
        results = list(made) if isinstance(made, (list, tuple)) or type(made).__name__ == "Array" else [made]
        self._variables |= dict(zip(outputs, results, strict=False))
        return steps

    def _value(self, told: Any) -> Any:
        """Return the value of a variable; anything that is not a variable is returned unchanged."""
        return self._variables.get(told, told) if isinstance(told, str) else told

    def _step(self, name: str, given: list[Any], attributes: list[Any]) -> ScheduleStep | None:
        blocks, loops, numbers = [], [], []
        for value in given:
            kind = type(value).__name__
            if kind == "SBlockRV":
                blocks.append(str(self._schedule.get(value).name_hint))
            elif kind == "LoopRV":
                if (place := self._place(value)) is None:
                    return None  # the root or inlined place that compute_at may name
                loops.append(place)
            elif not isinstance(value, list):  # the consumers of a cache: all of them
                numbers.append(_factor(value))
        return _ARGUMENTS[name](tuple(blocks), tuple(loops), tuple(numbers), attributes)

    def _place(self, loop: Any) -> LoopAt | None:
        from driftline.schedules.drawing import ScheduleView

        try:
            sought = self._schedule.get_sref(loop)
        except Exception:  # not a loop any more, or the root
            return None
        for block in ScheduleView(self._schedule, frozenset()).blocks:
            for index, one in enumerate(self._schedule.get_loops(block)):
                if self._schedule.get_sref(one).same_as(sought):
                    return LoopAt(block, index)
        return None


def _decided(kind: str, decision: Any, attributes: list[Any]) -> Any:
    if kind == "SampleCategorical":
        return int(attributes[0][int(decision)])
    return [int(one) for one in decision]


_LOOKUPS: Mapping[str, Callable[[Any, list[Any], list[Any]], Any]] = {
    "GetSBlock": lambda s, given, attributes: s.get_sblock(attributes[0]),
    "GetLoops": lambda s, given, attributes: list(s.get_loops(given[0])),
    "GetChildBlocks": lambda s, given, attributes: list(s.get_child_blocks(given[0])),
    "GetProducers": lambda s, given, attributes: list(s.get_producers(given[0])),
    "GetConsumers": lambda s, given, attributes: list(s.get_consumers(given[0])),
    "GetOutputBlocks": lambda s, given, attributes: list(s.get_output_blocks(given[0])),
}


def _factor(given: Any) -> int | None:
    return None if given is None or isinstance(given, str) else int(given)  # TVM writes None as text


def _factors(given: list[Any]) -> list[int | None]:
    return [_factor(one) for one in given]


_STEPS: Mapping[str, tuple[str, Callable[[Any, list[Any], list[Any]], Any]]] = {
    "Split": ("split", lambda s, given, attributes: list(s.split(given[0], _factors(given[1:])))),
    "Fuse": ("fuse", lambda s, given, attributes: s.fuse(*given)),
    "Reorder": ("reorder", lambda s, given, attributes: s.reorder(*given)),
    "Parallel": ("parallel", lambda s, given, attributes: s.parallel(given[0])),
    "Vectorize": ("vectorize", lambda s, given, attributes: s.vectorize(given[0])),
    "Unroll": ("unroll", lambda s, given, attributes: s.unroll(given[0])),
    "ComputeInline": ("compute_inline", lambda s, given, attributes: s.compute_inline(given[0])),
    "ReverseComputeInline": (
        "reverse_compute_inline",
        lambda s, given, attributes: s.reverse_compute_inline(given[0]),
    ),
    "ComputeAt": ("compute_at", lambda s, given, attributes: s.compute_at(*given, bool(attributes[0]))),
    "ReverseComputeAt": (
        "reverse_compute_at",
        lambda s, given, attributes: s.reverse_compute_at(*given, bool(attributes[0])),
    ),
    "CacheRead": (
        "cache_read",
        lambda s, given, attributes: s.cache_read(given[0], int(attributes[0]), str(attributes[1])),
    ),
    "CacheWrite": (
        "cache_write",
        lambda s, given, attributes: s.cache_write(given[0], int(attributes[0]), str(attributes[1])),
    ),
    "RFactor": ("rfactor", lambda s, given, attributes: s.rfactor(given[0], int(attributes[0]))),
    "DecomposeReduction": ("decompose_reduction", lambda s, given, attributes: s.decompose_reduction(*given)),
    "AddUnitLoop": ("add_unit_loop", lambda s, given, attributes: s.add_unit_loop(given[0])),
}
_Arguments = Callable[[tuple[str, ...], tuple[LoopAt, ...], tuple[int | None, ...], list[Any]], ScheduleStep]


def _plain(name: str) -> _Arguments:
    return lambda blocks, loops, numbers, attributes: ScheduleStep(name, blocks, loops, numbers)


def _placed(name: str) -> _Arguments:
    return lambda blocks, loops, numbers, attributes: ScheduleStep(name, blocks, loops, (int(bool(attributes[0])), -1))


def _cached(name: str) -> _Arguments:
    return lambda blocks, loops, numbers, attributes: ScheduleStep(
        name, blocks[:1], numbers=(int(attributes[0]),), word=str(attributes[1])
    )


_ARGUMENTS: Mapping[str, _Arguments] = {
    **{name: _plain(name) for name, _ in _STEPS.values()},
    "compute_at": _placed("compute_at"),
    "reverse_compute_at": _placed("reverse_compute_at"),
    "cache_read": _cached("cache_read"),
    "cache_write": _cached("cache_write"),
    "rfactor": lambda blocks, loops, numbers, attributes: ScheduleStep("rfactor", (), loops, (int(attributes[0]),)),
}
