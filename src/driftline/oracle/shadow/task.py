"""The task that plays a program's shadow, in a worker of its framework.

Asked for `runs` samples on one input sample, it writes the float64 reference, the samples, and the band of legal steps
and choices. With the outputs of a compiler at hand it first takes over the valid choices among them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driftline.core.plugins import load_plugins
from driftline.core.registry import import_string
from driftline.core.tensors import Arrays, load_tensors, save_tensors
from driftline.oracle.arithmetic import declared
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.rule import ShadowAnswer
from driftline.oracle.shadow.player import Player, Shadow
from driftline.programs.opened import OpenedProgram, ProgramChanged

# By witness: the framework itself, or another one that can play its programs.
FRONT_ENDS = {
    "torch": "driftline.oracle.shadow.torch_front:open_shadow",
    "onnx": "driftline.oracle.shadow.onnx_front:open_shadow",
    "onnx-player": "driftline.oracle.shadow.onnx_player_front:open_shadow",
}


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
        uses=tuple(answer["uses"]),
        worst_case=answer["worst_case"],
    )


def play(payload: dict[str, Any], context: object) -> dict[str, Any]:
    load_plugins(payload["plugins"])
    arrays = load_tensors(payload["inputs"][payload["sample"]])
    program = OpenedProgram.from_payload(payload, arrays, lambda stage: None)
    folder = Path(payload["folder"])
    try:
        shadow: Shadow = import_string(FRONT_ENDS[payload["witness"]])(program, arrays, declared(payload["arithmetic"]))
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
        "uses": list(found.uses),
        "worst_case": found.worst_case,
    }
    for name in ("reference", "samples", "low", "high", "open"):
        path = folder / f"shadow.{name}"
        save_tensors(path, getattr(found, name))
        answer[name] = str(path)
    return answer


def ask_shadow(shadow: Shadow, runs: int, outputs: Arrays | None) -> ShadowAnswer:
    """The answer of a shadow that is asked once, in this process."""
    return Player(shadow).ask(runs, outputs)
