"""NNSmith on the planted compilers: its programs, generated once, run on every plant and every twin.

NNSmith takes no notice of what a compiler does with its programs, so one sequence of them serves all plants: what it
would find in some time is what the programs of that time find. It has the processor time that a hunt with two jobs has
in the same minutes; generating, exporting to ONNX, and running the reference count, running the plant does not. Its
defaults otherwise: five operators, sizes up to 65,536 elements, one input for each program.

torch programs run in NNSmith's own environment, whose module this file is part of; ONNX models are run here. A plant is
*found* when an output is not `allclose` to the same program's without the plant, with NNSmith's tolerances; the twins
are held to the same, and where a twin is accused too the program does not count. The reference is the sound evaluator,
not torch: differences between these two would be counted as bugs of every plant.
"""

from __future__ import annotations

import json
import math
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _detection_plants import PLANTS, Call, Deed, Plant

RTOL, ATOL = 1e-2, 1e-3  # of `nnsmith.difftest`; NaN is equal to NaN
JOBS = 2  # of the hunt that it is held against
LONGEST = 20.0  # seconds that a program may take on the reference, which is written in Python

Run = Callable[[Plant, bool], Mapping[str, Any]]  # a plant, or its twin -> outputs


@dataclass(frozen=True)
class Tried:
    """One program of NNSmith, on all plants of its language."""

    language: str
    number: int
    at: float  # seconds of a processor until it was made
    struck: tuple[str, ...] = ()  # plants that changed a result on the way
    found: tuple[str, ...] = ()
    accused: tuple[str, ...] = ()  # twins
    problem: str = ""  # why it was not run


def try_plants(language: str, run: Run) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Which plants a program strikes, which of them NNSmith's oracle finds, and which twins it accuses."""
    plants = [one for one in PLANTS.values() if one.language == language]
    struck: set[str] = set()

    def watch(call: Call) -> Any:
        for plant in plants:
            try:
                if plant.wrong(call) is not None:
                    struck.add(plant.name)
            except Exception:  # it is wrong about this call, and will be again when it is run
                struck.add(plant.name)
        return None

    right = run(Plant("watcher", language, "values", (), watch), False)
    found, accused = [], []
    for name in sorted(struck):
        if _is_found(PLANTS[name], right, run):
            found.append(name)
        if not _is_close(run(PLANTS[name], True), right):
            accused.append(name)
    return tuple(sorted(struck)), tuple(found), tuple(accused)


def _is_found(plant: Plant, right: Mapping[str, Any], run: Run) -> bool:
    def wrong(call: Call) -> Any:
        made = plant.wrong(call)
        if isinstance(made, Deed) and plant.kind == "process":
            raise _Ended  # it would have ended this process
        return made

    try:
        return not _is_close(run(Plant(plant.name, plant.language, plant.kind, plant.blames, wrong), False), right)
    except Exception:  # an error of the compiler is reported too
        return True


class _Ended(Exception):
    """The plant raises, or kills its process."""


def _is_close(got: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    if set(got) != set(right):
        return False
    pairs = [(np.asarray(got[name]), np.asarray(right[name])) for name in right]
    with np.errstate(all="ignore"):
        return all(
            one.shape == other.shape and np.allclose(one, other, rtol=RTOL, atol=ATOL, equal_nan=True)
            for one, other in pairs
        )


class _TooLong(BaseException):
    """Not an `Exception`: that would be taken for an error of the plant, and the plant for found."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def over(*_: object) -> None:
        raise _TooLong(f"took more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


# -- both languages ----------------------------------------------------------------------------------------------------


def tried(language: str, number: int, at: float, run: Run) -> Tried:
    try:
        with _limited(LONGEST):
            return Tried(language, number, at, *try_plants(language, run))
    except (Exception, _TooLong) as error:
        return Tried(language, number, at, problem=f"{type(error).__name__}: {str(error)[:100]}")


def try_torch(net: Any, inputs: Mapping[str, Any], number: int, at: float) -> Tried:
    """A model of NNSmith on all plants; runs in its environment."""
    import torch
    from _detection_plants import _hooked

    def run(plant: Plant, sound: bool) -> Mapping[str, Any]:
        given = {name: tensor.clone() for name, tensor in inputs.items()}
        with torch.no_grad():
            results = _hooked(net, plant, sound)(**given)
        return {str(at): value.detach().numpy() for at, value in enumerate(results)}

    return tried("torch", number, at, run)


def try_onnx(folder: Path, number: int, at: float) -> Tried:
    import onnx
    from _detection_plants import _hook_node, planted_backend

    from driftline.programs.onnx.evaluator import make_evaluator

    def run(plant: Plant, sound: bool) -> Mapping[str, Any]:
        evaluator = make_evaluator(onnx.load(folder / f"{number}.onnx"))
        state: dict[str, Any] = {"sources": {}}
        made_by = {name: node.op_type for node in evaluator.rt_nodes_ for name in node.output}
        backend: Any = type(planted_backend(plant, sound=sound))
        for node in evaluator.rt_nodes_:
            _hook_node(node, backend, state, [1], [made_by.get(name, "") for name in node.input])
        with np.load(folder / f"{number}.npz") as arrays, np.errstate(all="ignore"):
            results = evaluator.run(None, dict(arrays))
        return {str(at): np.asarray(value) for at, value in enumerate(results)}

    return tried("onnx", number, at, run)


def beside(folder: Path, minutes: float, seed: int) -> int:
    """Let NNSmith make its programs, unless they are in the folder; try them; and print the table."""
    from _lines import append_line, read_lines
    from _nnsmith import NoPeer, install, make_programs

    folder.mkdir(parents=True, exist_ok=True)
    seconds = minutes * 60 * JOBS
    results, index = folder / "tried.jsonl", folder / "onnx" / "programs.jsonl"
    try:
        python = install()
        for language in ("torch", "onnx"):
            if not (folder / language / "done").exists():
                make_programs(python, folder / language, language, seconds, seed)
    except NoPeer as error:
        print(f"NNSmith: {error}")
        return 1
    done = {line["number"] for line in read_lines(results)}
    for line in read_lines(index):
        if line["number"] not in done:
            append_line(results, asdict(try_onnx(index.parent, line["number"], line["at"])))
    lines = [
        Tried(**{key: tuple(value) if isinstance(value, list) else value for key, value in line.items()})
        for line in (*read_lines(folder / "torch" / "programs.jsonl"), *read_lines(results))
    ]
    show([line for line in lines if line.at <= seconds], seconds)
    return 0


def show(lines: Sequence[Tried], seconds: float) -> None:
    first: dict[str, float] = {}
    for line in lines:
        for name in set(line.found) - set(line.accused):
            first[name] = min(line.at, first.get(name, math.inf))
    accused = {name for line in lines for name in line.accused}
    for plant in PLANTS.values():
        when = f"found {first[plant.name] / JOBS:6.0f} s" if plant.name in first else "missed        "
        struck = sum(plant.name in line.struck for line in lines)
        told = sum(plant.name in set(line.found) - set(line.accused) for line in lines)
        loud = sum(plant.name in line.accused for line in lines)
        print(
            f"{when}  {plant.kind:10} {plant.name}: struck {struck}, told {told}" + (f", twin {loud}" if loud else "")
        )
    for language in ("torch", "onnx"):
        mine = [line for line in lines if line.language == language]
        ran = sum(not line.problem for line in mine)
        print(f"{language}: {len(mine)} programs in {seconds:.0f} s of a processor, {ran} of them run")
    kinds = sorted({plant.kind for plant in PLANTS.values() if plant.name not in first})
    print(f"found: {len(first)} of {len(PLANTS)}; missed in the classes {', '.join(kinds)}")
    if first:
        print(f"time to the first report: median {statistics.median(first.values()) / JOBS:.0f} s")
    print(f"twins silent: {len(PLANTS) - len(accused)} of {len(PLANTS)}")


# -- inside NNSmith's environment --------------------------------------------------------------------------------------


def make(maker: Any, folder: Path, form: str, seconds: float, seed: int) -> None:
    """Programs for so many seconds of processor time, of a `Maker` of `_nnsmith_inside.py`."""
    folder.mkdir(parents=True, exist_ok=True)
    spent, number = 0.0, 0
    with open(folder / "programs.jsonl", "w") as out:
        while spent < seconds:
            started = time.process_time()
            try:
                model = maker.make(5, seed + number)
                oracle = model.make_oracle()
            except Exception:  # its own business
                model = None
            spent += time.process_time() - started
            if model is not None:
                line: dict[str, Any] = {"number": number, "at": round(spent, 3)}
                if form == "torch":
                    import torch

                    inputs = {name: torch.from_numpy(np.asarray(array)) for name, array in oracle.input.items()}
                    line = asdict(try_torch(model.torch_model.eval(), inputs, number, round(spent, 3)))
                else:
                    model.dump(str(folder / f"{number}.onnx"))
                    np.savez(folder / f"{number}.npz", **oracle.input)
                print(json.dumps(line), file=out, flush=True)
            number += 1
    (folder / "done").touch()
