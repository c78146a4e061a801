"""The task that plays a program's shadow, in a worker of its framework.

Asked for `runs` samples on one input sample, it writes the float64 reference, the samples, and the band of legal steps
and choices. With the outputs of a compiler at hand it first takes over the valid choices among them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from driftline.core.plugins import load_plugins
from driftline.core.registry import import_string
from driftline.core.tensors import Arrays, load_tensors, save_tensors
from driftline.oracle.arithmetic import declared
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.rule import ShadowAnswer
from driftline.programs.opened import OpenedProgram, ProgramChanged


class Shadow(Protocol):
    """What a front end offers; see `TorchShadow`."""

    unruled: set[str]
    roundings: int  # how many results are rounded in the whole graph
    terms: int  # how many numbers at most go into one of them

    def reference(self) -> Arrays: ...
    def sample(self, number: int) -> Arrays: ...
    def pushed(self) -> list[Arrays]: ...
    def alternatives(self) -> tuple[list[Arrays], set[str]]: ...
    def force(self, outputs: Arrays) -> dict[str, str]: ...
    def choice_outputs(self) -> set[str]: ...


FRONT_ENDS = {
    "torch": "driftline.oracle.shadow.torch_front:open_shadow",
    "onnx": "driftline.oracle.shadow.onnx_front:open_shadow",
}


def worst_case(roundings: int, terms: int) -> float:
    """How many sigma rounding could move a result if every error in the graph were as large as it can be and all of
    them pulled the same way: by the inequality of Cauchy and Schwarz, the root of their number."""
    return float((3.0 * max(roundings, 1) * max(terms, 1)) ** 0.5)


def read_answer(answer: dict[str, Any]) -> ShadowAnswer:
    """What the task wrote, for the rule."""
    return ShadowAnswer(
        reference=load_tensors(answer["reference"]),
        samples=load_tensors(answer["samples"]),
        low=load_tensors(answer["low"]),
        high=load_tensors(answer["high"]),
        choices=answer["choices"],
        choosing=tuple(answer["choosing"]),
        open=load_tensors(answer["open"]),
        clauses=tuple(answer["clauses"]),
        unruled=tuple(answer["unruled"]),
        worst_case=answer["worst_case"],
    )


def play(payload: dict[str, Any], context: object) -> dict[str, Any]:
    load_plugins(payload["plugins"])
    arrays = load_tensors(payload["inputs"][payload["sample"]])
    program = OpenedProgram.from_payload(payload, arrays, lambda stage: None)
    folder = Path(payload["folder"])
    try:
        shadow: Shadow = import_string(FRONT_ENDS[program.framework])(program, arrays, declared(payload["arithmetic"]))
        return play_shadow(shadow, payload["runs"], payload["outputs"], folder)
    except (NoExactReference, ProgramChanged) as reason:
        return {"problem": str(reason)}


def play_shadow(shadow: Shadow, runs: int, outputs: str | None, folder: Path) -> dict[str, Any]:
    """Ask, and leave the answer in files."""
    found = ask_shadow(shadow, runs, load_tensors(outputs) if outputs else None)
    answer: dict[str, Any] = {
        "choices": dict(found.choices),
        "choosing": list(found.choosing),
        "unruled": list(found.unruled),
        "clauses": list(found.clauses),
        "worst_case": found.worst_case,
    }
    for name in ("reference", "samples", "low", "high", "open"):
        path = folder / f"shadow.{name}"
        save_tensors(path, getattr(found, name))
        answer[name] = str(path)
    return answer


def ask_shadow(shadow: Shadow, runs: int, outputs: Arrays | None) -> ShadowAnswer:
    """The reference, `runs` samples and the band of legal steps and choices, in this process."""
    reference = shadow.reference()
    samples = [shadow.sample(number) for number in range(runs)]
    problems: dict[str, str] = {}
    if outputs:
        problems = shadow.force(outputs)
        if any(not problem for problem in problems.values()):
            reference = shadow.reference()
            samples = [shadow.sample(number) for number in range(runs)]
    pushed = [reference, *shadow.pushed()]
    low, high = dict(reference), dict(reference)
    for other in pushed[1:]:
        for name, values in other.items():
            if values.shape == reference[name].shape:
                low[name], high[name] = np.minimum(low[name], values), np.maximum(high[name], values)
    stacked = {name: np.stack([_fitting(s[name], value) for s in samples]) for name, value in reference.items()}
    alternatives, clauses = shadow.alternatives()
    open_places = {name: _changed(value, [a[name] for a in alternatives]) for name, value in reference.items()}
    return ShadowAnswer(
        reference=reference,
        samples=stacked,
        low=low,
        high=high,
        choices=problems,
        choosing=tuple(sorted(shadow.choice_outputs())),
        open=open_places,
        clauses=tuple(sorted(clauses)),
        unruled=tuple(sorted(shadow.unruled)),
        worst_case=worst_case(shadow.roundings, shadow.terms),
    )


def _changed(value: Any, others: list[Any]) -> Any:
    """Elements that come out otherwise when something left open does."""
    changed = np.zeros(value.shape, dtype=bool)
    for other in others:
        if other.shape != value.shape:
            return np.ones(value.shape, dtype=bool)
        both_nan = (value != value) & (other != other)
        changed |= (value != other) & ~both_nan
    return changed


def _fitting(values: Any, like: Any) -> Any:
    """A sample whose shape depends on a step (nonzero, masked_select) tells nothing elementwise."""
    return values if values.shape == like.shape else np.full(like.shape, np.nan)
