"""A device that does not exist: a hardware profile that every graph of a program is checked against.

`mock:profile=npu` runs a program as PyTorch does, or with the arithmetic of the profile's `[compute]`, and writes
violations of the profile into the log. With `strict=true` a violation is a failure, which is reduced like any other:
its first line names constraint and operator, and the exception's class is named after the constraint.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from driftline.backends._dynamo import DynamoRunner, compile_with_dynamo
from driftline.backends._torch import TorchBackend
from driftline.backends.base import BOOLEAN, Compiled, CompiledFacts, Option, Options
from driftline.core.errors import DriftlineError
from driftline.core.execution import Stage
from driftline.core.script_call import ScriptCall
from driftline.core.tensors import Arrays
from driftline.core.tracker import Tracker
from driftline.hardware.constraint import byte_count
from driftline.hardware.loading import GENERIC, load_profile, shipped_profiles
from driftline.hardware.profile import Profile
from driftline.programs.opened import OpenedProgram

if TYPE_CHECKING:
    from driftline.hardware.lowering import GraphChecker


class Mock(TorchBackend):
    name = "mock"
    preset = "all"
    reference = True  # nothing is optimised
    not_hunted = "it stands for a device that you describe: name it, with a profile"
    tracker = Tracker()
    options = {
        "profile": Option(
            f"a hardware profile: {', '.join(shipped_profiles())}, or a file (npu.toml, npu.py)",
            default=GENERIC,
            file=True,
        ),
        "strict": Option("what breaks the profile is a failure; default: as the profile says", BOOLEAN),
        "alignment": Option("in place of the alignment of shapes in the profile; 1: none"),
        "max_memory": Option("in place of the bytes per tensor in the profile, such as 16MiB"),
        "graph": Option("which graphs are held against it: those of ATen, or Dynamo's", ("aten", "torch"), "aten"),
    }

    def validate(self, options: Options, target: str) -> None:
        super().validate(options, target)
        profile = options.get("profile", GENERIC)
        if not profile.endswith(".py"):  # Python files are run in workers only
            _profile(options)

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        if framework != "torch":
            return ()
        profile = _profile(options)
        constraints = ", ".join(one.to_python() for one in profile.constraints)
        call = (
            f"torch.compile(function, backend=aot_mock_backend(strict={profile.strict}, constraints=[{constraints}]))"
        )
        names = sorted({type(one).__name__ for one in profile.constraints})
        imports = (f"from driftline.inductor import {', '.join(['aot_mock_backend', *names])}",)
        return [ScriptCall(call, imports=imports, packages=("driftline",))]

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        from driftline.hardware.lowering import GraphChecker

        checker = GraphChecker(_profile(options))
        try:
            run = compile_with_dynamo(program, _lowering(checker, options.get("graph", "aten")), options)
        finally:
            print(checker.settle().summary(), file=sys.stderr)
        _judge(checker, program)
        return _CheckedRun(run, checker, program)


class _CheckedRun:
    """A compiled program whose graphs are checked against the profile, also when new sizes are compiled."""

    def __init__(self, run: DynamoRunner, checker: GraphChecker, program: OpenedProgram) -> None:
        self._run = run
        self._checker = checker
        self._program = program
        self.bare = run.bare

    def __call__(self, arrays: Arrays) -> Arrays:
        results = self._run(arrays)
        _judge(self._checker, self._program)
        return results

    @property
    def facts(self) -> CompiledFacts:
        return replace(self._run.facts, violations=len(self._checker.report.violations))


def _judge(checker: GraphChecker, program: OpenedProgram) -> None:
    from driftline.hardware.violation import violation_error

    if checker.profile.strict and checker.report.violations:
        program.enter(Stage.COMPILE)
        raise violation_error(checker.profile.name, checker.report.violations)


def _profile(options: Options) -> Profile:
    """Return the profile of a target. Environment variables are ignored, so that replays use the same profile."""
    profile = load_profile(options.get("profile", GENERIC))
    if alignment := options.get("alignment"):
        if not alignment.isascii() or not alignment.isdigit():
            raise DriftlineError(f"alignment={alignment} is not valid; write a whole number, such as 32 (1: none).")
        profile = profile.with_alignment(int(alignment))
    if memory := options.get("max_memory"):
        try:
            profile = profile.with_max_memory(byte_count(memory))
        except ValueError as error:
            raise DriftlineError(f"max_memory={memory} is not valid: it {error}.") from error
    if strict := options.get("strict"):
        profile = replace(profile, strict=strict == "true")
    return profile


def _lowering(checker: GraphChecker, level: str) -> Callable[..., Any]:
    """Return a backend of `torch.compile` that checks graphs and never raises: Dynamo would wrap the exception."""
    from driftline.hardware.lowering import lower_by_aot, lower_plainly

    profile, count = checker.profile, 0

    def lower(module: Any, inputs: Sequence[Any]) -> Any:
        nonlocal count
        name = f"graph {count}"
        count += 1
        checker.note_break(module)

        def part(suffix: str) -> Callable[[Any], Any]:
            def check_and_lower(graph: Any) -> Any:
                if level == "aten":
                    checker.check(graph, f"{name} {suffix}")
                return lower_plainly(profile, graph)

            return check_and_lower

        if level == "torch":
            checker.check(module, name)
        return lower_by_aot(module, inputs, part("forward"), part("backward"))

    return lower
