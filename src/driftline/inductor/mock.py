"""`mock_backend` and `aot_mock_backend`: backends of `torch.compile` that imitate a device.

    torch.compile(model, backend=mock_backend)                           # the generic profile, warnings
    torch.compile(model, backend=aot_mock_backend(profile="npu.toml", strict=True))

`mock_backend` holds Dynamo's graphs against the profile, before anything is lowered; `aot_mock_backend` also those of
AOTAutograd, forward and backward. Violations are warnings and the program runs on; with `strict` they are one error,
after a script with the first of them was written into the lab folder. `backend.report` has all that was seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean, plural
from driftline.hardware.constraint import Constraint
from driftline.hardware.loading import GENERIC, load_profile
from driftline.hardware.lowering import GraphChecker, lower_by_aot, lower_by_inductor, lower_plainly
from driftline.hardware.profile import Profile
from driftline.hardware.report import ConstraintReport
from driftline.hardware.violation import SHOWN, ConstraintWarning, Violation, grouped, violation_error
from driftline.inductor.lab import DEFAULT, Lab
from driftline.inductor.reproduction import reproduction

RESULT = "violations.json"
INDUCTOR, EAGER = LOWERINGS = ("inductor", "eager")


@dataclass(frozen=True)
class MockSettings:
    """The settings of a mock backend."""

    profile: str | Path | Profile = GENERIC
    strict: bool | None = None  # None: as the profile says
    constraints: tuple[Constraint, ...] | None = None  # replace the profile's constraints
    lab: str | Path = DEFAULT  # where reproductions are written
    lower: str = INDUCTOR  # how AOTAutograd's graph is run

    def resolved(self) -> Profile:
        """Return the profile with these settings; the variables `MOCK_...` override them."""
        profile = load_profile(self.profile)
        if self.constraints is not None:
            profile = profile.with_constraints(self.constraints)
            profile = replace(profile, name="custom") if self.profile == GENERIC else profile
        if self.strict is not None:
            profile = replace(profile, strict=self.strict)
        return profile.overridden()


class MockBackend:
    """A backend of `torch.compile`. Called with keywords alone, it returns a new backend with these settings."""

    __name__ = "mock_backend"
    aot: ClassVar[bool] = False
    _reached: ClassVar[str] = "graph"

    def __init__(self, settings: MockSettings | None = None) -> None:
        self.settings = settings or MockSettings()
        self._checker: GraphChecker | None = None
        self._graphs = 0

    def __call__(
        self,
        module: Any = None,
        example_inputs: Any = None,
        *,
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Any:
        if module is None:
            return type(self)(_changed(self.settings, settings))
        own = _changed(self.settings, {**(options or {}), **settings})
        return self._compile(module, example_inputs, own)

    @property
    def report(self) -> ConstraintReport:
        """The report on all graphs compiled so far: their violations, and what was not checked."""
        return self._use(self.settings.resolved()).settle()

    def save(self) -> Path:
        """Write the report into the lab folder, for `driftline inductor analyze`; returns the run's folder."""
        report = self.report
        run = Lab(self.settings.lab).new_run("mock", report.profile)
        run.write_json(RESULT, report.to_json())
        run.finish(violations=len(report.violations), graphs=len(report.graphs))
        return run.folder

    def reset(self) -> None:
        """Forget all graphs seen so far."""
        self._checker, self._graphs = None, 0

    def _use(self, profile: Profile) -> GraphChecker:
        if self._checker is None:
            self._checker = GraphChecker(profile)
            for note in self._checker.report.notes:
                warnings.warn(ConstraintWarning(note), stacklevel=2)
        self._checker.profile = profile
        self._checker.report.profile = profile.name
        return self._checker

    def _compile(self, module: Any, inputs: Sequence[Any], settings: MockSettings) -> Any:
        profile = settings.resolved()
        checker = self._use(profile)
        name = f"graph {self._graphs}"
        self._graphs += 1
        checker.note_break(module)

        def check(graph: Any, part: str = "") -> None:
            found = checker.check(graph, f"{name} {part}".strip())
            if found:
                self._speak(checker, graph, found, settings)

        check(module, "before AOTAutograd" if self.aot else "")
        if not self.aot:
            # Dynamo's own operators are computed as torch does it; those of ATen can be computed as the device does.
            plain = lambda graph: lower_plainly(profile, graph)  # noqa: E731
            return lower_by_aot(module, inputs, plain, plain) if profile.arithmetic else module.forward
        if settings.lower == INDUCTOR and not profile.arithmetic:
            return lower_by_inductor(module, inputs, check)

        def lower(graph: Any, part: str) -> Any:
            check(graph, part)
            return lower_plainly(profile, graph)

        return lower_by_aot(module, inputs, lambda g: lower(g, "forward"), lambda g: lower(g, "backward"))

    def _speak(self, checker: GraphChecker, graph: Any, found: list[Violation], settings: MockSettings) -> None:
        profile = checker.profile
        if profile.strict:
            note = _written(Lab(settings.lab), checker, graph, found, aot=self.aot)
            raise violation_error(profile.name, found).with_note(note)
        groups = grouped(found)
        lines = [f"{profile.name}: {plural(len(found), 'violation')} in {found[0].graph}", *map(str, groups[:SHOWN])]
        if len(groups) > SHOWN:
            lines.append(f"... and {len(groups) - SHOWN} more places; backend.report.summary() has all")
        warnings.warn(ConstraintWarning("\n".join(lines)), stacklevel=2)


class AotMockBackend(MockBackend):
    """A mock backend that goes through AOTAutograd: forward and backward graphs are checked too."""

    __name__ = "aot_mock_backend"
    aot = True


mock_backend = MockBackend()
aot_mock_backend = AotMockBackend()


def _changed(settings: MockSettings, given: Mapping[str, Any]) -> MockSettings:
    """Return the settings with these changes. Unknown names and values are refused at once."""
    known = [*MockSettings.__dataclass_fields__]
    for name in given:
        if name not in known:
            raise DriftlineError(
                f"A mock backend has no setting {name!r}.{did_you_mean(name, known)} It has: {', '.join(known)}."
            )
    values = dict(given)
    if values.get("constraints") is not None:
        values["constraints"] = tuple(values["constraints"])
    changed = replace(settings, **values)
    if changed.lower not in LOWERINGS:
        raise DriftlineError(f"lower={changed.lower!r} is not valid; it is one of {', '.join(LOWERINGS)}.")
    changed.resolved()
    return changed


def _written(lab: Lab, checker: GraphChecker, graph: Any, found: list[Violation], *, aot: bool) -> str:
    """Write the reproduction and the report, and return the sentence that says where. Never raises an exception."""
    try:
        run = lab.new_run("mock", checker.profile.name)
        run.write_json(RESULT, checker.settle().to_json())
        run.write("graph.py.txt", graph.print_readable(print_output=False))
        script = run.write("repro.py", reproduction(graph, found[0], checker.profile, aot=aot))
        run.finish(violations=len(found))
    except (DriftlineError, OSError) as error:
        return f"No reproduction was written: {error}"
    except Exception as error:  # an operator that cannot be written as text
        return f"The graph is in {run.folder}; no script was made of it: {type(error).__name__}: {error}"
    return f"Reproduction: {script} (all of it: {run.folder / RESULT})"
