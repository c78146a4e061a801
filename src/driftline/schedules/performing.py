"""Inside a worker: applies a trace, compiles and runs it between guard bytes, and judges the result.

Most schedules are right, and many are tried to reduce a failure, so they are compiled without the checks of arguments,
most of them without LLVM's optimisations, held against numpy, and not at all where the same module was tried before
(`answered.py`). A `faithful` run, which confirms every finding in a fresh process, compiles as a user does and holds
the result against the unscheduled function.

`ScheduleError` is how TVM refuses a step. Anything else that a primitive raises is a finding, and so is a schedule that
was accepted and cannot be built.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from driftline.core.evidence import Element, Evidence, Fault
from driftline.core.execution import Failure, Stage
from driftline.core.sentences import ended
from driftline.core.tensors import Array, Arrays, load_tensors, save_tensors
from driftline.core.verdict import Kind
from driftline.schedules.answered import AnsweredModules
from driftline.schedules.drawing import ScheduleView
from driftline.schedules.functions import TensorFunction, function_of
from driftline.schedules.guarded import GuardedArray, as_tensor, made_inputs
from driftline.schedules.intrinsics import register_intrinsic
from driftline.schedules.passes import built_plainly, outside_of
from driftline.schedules.preconditions import broken_precondition
from driftline.schedules.primitives import line_of
from driftline.schedules.requests import Performed
from driftline.schedules.right import computed
from driftline.schedules.target import unoptimised
from driftline.schedules.trace import ScheduleStep, Trace

RUNS_IN_PARALLEL = 6  # of a schedule with parallel loops: a race does not show every time
TellStep = Callable[[ScheduleStep | None, str], None]  # the step that is applied now, or the stage that is entered


def quiet(step: ScheduleStep | None, stage: str) -> None:
    """A listener that does nothing."""


class ScheduleBench:
    """Applies one trace: its function as a schedule, and the arrays it is run on."""

    def __init__(self, trace: Trace, shared: Path, *, optimised: bool = True, faithful: bool = True) -> None:
        import tvm

        self._faithful = faithful
        self._target = trace.target if optimised else unoptimised(trace.target)
        self.trace = trace
        self.function = function_of(trace)
        self._shared = shared
        self._plain = prim_func(self.function, trace.sizes)
        self.schedule = tvm.s_tir.Schedule(self._plain, error_render_level="none")
        self._seen: ScheduleView | None = None
        self._parameters = frozenset(str(parameter.name) for parameter in self._plain.params)  # as TVM calls them
        names = (*self.function.inputs, *self.function.outputs)
        self._shapes = {
            name: (tuple(int(size) for size in parameter.shape), str(parameter.dtype))
            for name, parameter in zip(names, self._plain.params, strict=True)
        }

    @property
    def view(self) -> ScheduleView:
        """The view of the schedule's present state; it is rebuilt after each step."""
        if self._seen is None:
            self._seen = ScheduleView(self.schedule, self._parameters)
        return self._seen

    def apply(self, step: ScheduleStep) -> Performed | None:
        """Apply a step. Returns None on success, else the result that says why it was refused or what it raised."""
        import tvm

        line = line_of(step)
        if not self.view.holds(step):
            return Performed(self.trace, Stage.SCHEDULE, refused=f"{line}: there is no such block or loop")
        if broken := broken_precondition(self.view, self.function, step):
            return Performed(self.trace, Stage.SCHEDULE, refused=f"{line}: {broken.duty}")
        if step.primitive == "tensorize":
            register_intrinsic(step)
        try:
            eval(line, {"s": self.schedule})  # `line_of` writes calls of the table with names and numbers only
        except tvm.s_tir.ScheduleError:
            return Performed(self.trace, Stage.SCHEDULE, refused=line)
        except Exception as error:
            return self._raised(Stage.SCHEDULE, error)
        self._seen = None
        return None

    def finish(self, tell: TellStep = quiet) -> Performed:
        """Compile the scheduled module, run it and compare; a result that cannot vary is cached. With passes of its
        own, a schedule that accesses a buffer out of bounds is refused first."""
        if self.trace.passes is not None and (buffer := self._outside()):
            return Performed(self.trace, Stage.COMPILE, refused=f"it accesses {buffer} outside of it, with any passes")
        if self._faithful or "parallel" in self.trace.primitives:
            return self._tried(tell)
        answered = AnsweredModules(self._shared)
        path = answered.path(self.schedule.mod, self.trace.with_steps(()), self._target)
        known = answered.known(path, self.trace)
        if known is None:
            known = self._tried(tell)
            if known.kind != Kind.ERROR:  # its message has the names of variables, which differ in the same module
                answered.keep(path, known)
        return known

    def _outside(self) -> str:
        try:
            return outside_of(self.schedule.mod)
        except Exception:  # it cannot be lowered: compiling says so
            return ""

    def _tried(self, tell: TellStep) -> Performed:
        tell(None, Stage.COMPILE)
        try:
            module = self._built()
        except Exception as error:
            return self._raised(Stage.COMPILE, error)
        tell(None, Stage.RUN)
        runs = RUNS_IN_PARALLEL if "parallel" in self.trace.primitives else 1
        wrong = []
        for _ in range(runs):
            try:
                found = self._compared(*self._run(module))
            except Exception as error:
                return self._raised(Stage.RUN, error)
            if found:
                wrong.append(found)
        if not wrong:
            return Performed(self.trace, Stage.RUN, runs=runs)
        kind, evidence = wrong[0]
        return Performed(self.trace, Stage.RUN, kind, evidence, wrong_runs=len(wrong), runs=runs)

    def _built(self) -> Any:
        if self.trace.passes is None:
            return self._compiled(self.schedule.mod, self._target)
        return built_plainly(self.schedule.mod, self.trace)

    def _compiled(self, module: Any, target: str | dict[str, Any]) -> Any:
        import tvm

        if self._faithful:
            return tvm.compile(module, target=target)
        with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
            return tvm.compile(module, target=target)

    def _raised(self, stage: Stage, error: Exception) -> Performed:
        verdict = ended(Kind.ERROR, stage, Failure.of(error))
        return Performed(self.trace, stage, Kind.ERROR, replace(verdict.evidence, traceback=""))

    # -- running and comparing ---------------------------------------------------------------------------------------

    @cached_property
    def inputs(self) -> dict[str, Array]:
        shapes = {name: self._shapes[name] for name in self.function.inputs}
        limits = self.function.index_below or {}
        below = {name: self.trace.sizes[size] for name, size in limits.items()}
        return made_inputs(shapes, self.trace.seed, below, self.function.distinct)

    def _run(self, module: Any) -> tuple[dict[str, GuardedArray], dict[str, Array]]:
        guarded = {name: GuardedArray(*shape, mark) for mark, (name, shape) in enumerate(self._shapes.items())}
        given = self.inputs
        for name, array in given.items():
            guarded[name].array[...] = array
        module(*(as_tensor(one.array) for one in guarded.values()))
        return guarded, given

    def expected(self, given: Arrays) -> Arrays:
        """Return what the unscheduled function computes, from numpy or from a file that other schedules share."""
        if not self._faithful and (known := computed(self.function, given)) is not None:
            return known
        asked = self.trace.with_steps(()).digest
        path = self._shared / asked[:24]
        if path.exists():
            return load_tensors(path)
        guarded, _ = self._run(self._compiled(self._plain, unoptimised(self.trace.target)))
        found = {name: guarded[name].array.copy() for name in self.function.outputs}
        part = path.with_suffix(f".{os.getpid()}")  # another worker may be writing the same
        save_tensors(part, found)
        part.replace(path)
        return found

    def _compared(self, guarded: Mapping[str, GuardedArray], given: Arrays) -> tuple[Kind, Evidence] | None:
        for name, one in guarded.items():
            if where := one.touched():
                return Kind.OUT_OF_BOUNDS, Evidence(output=name, faults=(Fault.OTHER,), came=(where,))
        for name, array in given.items():
            if found := _difference(f"mutated:{name}", array, guarded[name].array, 0):
                return Kind.WRONG_VALUE, found
        for name, array in self.expected(given).items():
            if found := _difference(name, array, guarded[name].array, self.function.ulps):
                return Kind.WRONG_VALUE, found
        return None


def _difference(name: str, expected: Array, got: Array, ulps: int) -> Evidence | None:
    wrong = expected != got
    if ulps:
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(got - expected) <= ulps * np.spacing(np.abs(expected)))
    if not wrong.any():
        return None
    places = np.argwhere(wrong)
    first = tuple(int(index) for index in places[0])
    element = Element(first, expected[first].item(), got[first].item())
    return Evidence(
        output=name, dtype=str(expected.dtype), elements=expected.size, wrong=len(places), worst=(element,),
        faults=(Fault.NUMBER,),
    )  # fmt: skip


def prim_func(function: TensorFunction, sizes: Mapping[str, int]) -> Any:
    """Return the function as a TVM PrimFunc."""
    import textwrap

    if function.form == "te":
        return _made(function.form, "\n".join(function.lines(sizes)), ())
    return _made(function.form, textwrap.dedent(function.text).strip(), tuple(sizes.items()))


@lru_cache(maxsize=256)  # a schedule copies the function that it changes, so one serves many
def _made(form: str, text: str, sizes: tuple[tuple[str, int], ...]) -> Any:
    import tvm
    from tvm import te
    from tvm.script import tirx

    known = {"tvm": tvm, "te": te, "T": tirx}
    if form == "te":
        exec(text, known)  # our own text
        return known["func"]
    return tvm.script.from_source(text, {**known, **dict(sizes)})


def perform(
    trace: Trace,
    shared: Path,
    tell: TellStep = quiet,
    *,
    lenient: bool = False,
    build: bool = True,
    optimised: bool = True,
    faithful: bool = True,
) -> Performed:
    """Apply all steps of a trace, compile and run it. A refused step ends it, or is skipped if `lenient`. Without
    `build` the steps are only applied."""
    bench = ScheduleBench(trace.with_steps(()), shared, optimised=optimised, faithful=faithful)
    for step in trace.steps:
        bench.trace = bench.trace.with_steps((*bench.trace.steps, step))
        tell(step, "")
        found = bench.apply(step)
        if found is None:
            continue
        if not found.refused or not lenient:
            return found
        bench.trace = bench.trace.with_steps(bench.trace.steps[:-1])
    return bench.finish(tell) if build else Performed(bench.trace, Stage.SCHEDULE)
