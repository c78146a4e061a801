"""Collect everything that is exported about a bug: its smallest known case and all results of diagnosis."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from driftline.backends import BACKENDS
from driftline.causes import Cause
from driftline.core.case import Case
from driftline.core.evidence import Evidence
from driftline.core.identity import AFTER_ANOTHER_CALL
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.core.titles import title
from driftline.core.tracker import Tracker
from driftline.execute.environments import Environment, find_environment
from driftline.programs.convert import CONVERTERS, accepts_directly, find_converter
from driftline.report.scripts.failure import Leeway, ShownFailure
from driftline.report.title_facts import facts_of
from driftline.report.titles import facts_in
from driftline.store import Bug, Finding

PLAIN = "plain numbers for a script"  # the origin of plain inputs that replace the failing ones


@dataclass(frozen=True)
class Subject:
    """A bug with the data from which every export is written."""

    bug: Bug
    finding: Finding
    case: Case  # the reduced case if there is one; it has one target
    verdict: Mapping[str, Any]  # on that case
    operators: tuple[str, ...]
    converted: Program | None = None  # the ONNX model that the compiler was really given
    rewritten: Case | None = None  # the same as text, of a program that is a file
    expected: Arrays = field(default_factory=dict)  # of the failing sample, when it was kept
    right: Arrays = field(default_factory=dict)  # the same, computed in float64 and rounded once to its dtypes
    leeway: Leeway | None = None  # other results that are right as well
    draws: bool = False  # the results depend on a seed: random weights, or random numbers in a call
    plainer: tuple[Subject, ...] = ()  # the same bug on numbers that are read at once, the plainest first
    reduction: Mapping[str, Any] | None = None
    bisection: Mapping[str, Any] | None = None
    ablation: Mapping[str, Any] | None = None
    localization: Mapping[str, Any] | None = None
    causes: tuple[Cause, ...] = ()

    @property
    def target(self) -> Target:
        return self.case.targets[0]

    @cached_property
    def evidence(self) -> Evidence:
        return Evidence.from_json(self.verdict.get("evidence") or {})

    @property
    def kind(self) -> str:
        return str(self.verdict.get("kind") or self.bug.fingerprint.kind)

    @property
    def pooled(self) -> bool:
        """True if the error shows only when all inputs are judged together, not on a single input."""
        return self.evidence.pooled_z is not None

    @property
    def after_another_call(self) -> bool:
        """True if the bug shows only after another call, as far as is known."""
        return AFTER_ANOTHER_CALL in self.case.program.circumstances

    @property
    def arrays(self) -> Arrays:
        """The inputs of the failing sample."""
        index = self.evidence.sample or 0
        samples = self.case.samples
        return samples[index].arrays if index < len(samples) else samples[0].arrays if samples else {}

    @property
    def failure(self) -> Mapping[str, str]:
        """The exception that was raised, or the signal that ended the process; empty if neither occurred."""
        found = self.evidence
        if found.exception or found.signal:
            return {"type": found.exception or found.signal, "message": found.said, "traceback": found.traceback}
        return self.finding.execution.get("failure") or {}

    @property
    def blamed(self) -> str:
        """The name of the backend or converter that is blamed."""
        return self.bug.fingerprint.backend

    @property
    def tracker(self) -> Tracker:
        """The issue tracker of the blamed backend or converter."""
        link = next((link for link in CONVERTERS if link.name == self.blamed), None)
        if link:
            return link.tracker
        return BACKENDS.get(self.blamed).tracker if self.blamed in BACKENDS else Tracker()

    @property
    def title(self) -> str:
        """The blamed backend or converter, followed by what is wrong on the exported case."""
        mark = self.bug.fingerprint
        as_found = self.reduction is None and not any(sample.origin == PLAIN for sample in self.case.samples)
        facts = facts_in(self.finding.verdict) if as_found else None
        return (
            f"{self.blamed}: {title(mark.kind, mark.stage, self.evidence, facts or facts_of(self.case, self.evidence))}"
        )

    @property
    def reason(self) -> str:
        return str(self.verdict.get("reason") or self.bug.summary)

    def failing(self) -> ShownFailure:
        """Return the facts about the failure that a script is written from."""
        output = self.expected.get(self.evidence.output)
        first = output if output is not None else next(iter(self.expected.values()), None)
        dtype = first.dtype.name if first is not None else _guess_dtype(self.arrays)
        message, ending = (str(self.failure.get(part) or "") for part in ("message", "type"))
        options = self.case.options
        return ShownFailure(
            self.kind,
            self.evidence,
            message,
            dtype,
            options.timeout,
            ending,
            options.memory_limit,
            self.expected,
            self.right,
            self.leeway,
        )

    def versions(self, packages: Sequence[str]) -> dict[str, str]:
        """Return the version of each package that was used in the failing run; packages that are not found are left
        out.
        """
        environment = self.environment
        backend = BACKENDS.get(self.target.backend)
        found = {}
        for package in packages:
            version = release_in(environment, package) if environment else ""
            if self.target.version and package in backend.packages:
                version = self.target.version
            found[package] = version or installed_version(package)
        return {package: version for package, version in found.items() if version}

    @cached_property
    def environment(self) -> Environment | None:
        """The separate environment that the failing run used, for another release or for a converter; None if there was
        none.
        """
        backend, program = BACKENDS.get(self.target.backend), self.case.program
        if self.target.version:
            return find_environment(backend.packages, self.target.version)
        if accepts_directly(program.form, program.framework, backend.accepts):
            return None
        link = find_converter(program.form, program.framework, backend.accepts)
        return find_environment((link.environment,), None) if link and link.environment else None


def _guess_dtype(arrays: Arrays) -> str:
    return next((a.dtype.name for a in arrays.values()), "float32")


def installed_version(package: str) -> str:
    """Return the installed version of a package without its local suffix, or an empty string."""
    try:
        return importlib.metadata.version(package).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return ""


def release_in(environment: Environment, package: str) -> str:
    """Return the version of a package in an environment, or an empty string if it is not installed there."""
    name = package.replace("-", "_").lower()
    folders = Path(environment.path).glob(f"lib/python*/site-packages/{name}-*.dist-info")
    found = next((folder.name.removesuffix(".dist-info").rpartition("-")[2] for folder in folders), "")
    return found.partition("+")[0]


def facts(subject: Subject, script: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that is known about the bug as JSON; docs/json.md has the schema."""
    return {
        "bug": subject.bug.to_json(),
        "title": subject.title,
        "reason": subject.reason,
        "target": str(subject.target),
        "tracker": subject.tracker.url,
        "kind": subject.kind,
        "operators": list(subject.operators),
        "program": subject.case.program.to_json(),
        "options": subject.case.options.to_json(),
        "inputs": {name: {"dtype": a.dtype.name, "shape": list(a.shape)} for name, a in subject.arrays.items()},
        "verdict": json.loads(json.dumps(dict(subject.verdict), default=str)),
        "script": dict(script),
        "reduction": subject.reduction,
        "localization": subject.localization,
        "ablation": subject.ablation,
        "bisection": subject.bisection,
        "causes": [cause.note() for cause in subject.causes],
    }
