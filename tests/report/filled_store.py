"""Stores as a hunt leaves them, made through the store's own interface: bugs of every kind, turns, suspects."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.evidence import NOTHING, Element, Evidence
from driftline.core.program import Program, SourceBundle, file_digest
from driftline.core.target import Target
from driftline.core.tensors import Arrays, TensorSpec
from driftline.core.verdict import Fingerprint, Kind, Status
from driftline.store import Bug, Store
from driftline.store.hunts import HuntLog, SuspectBody, Turn, TurnBody

TEXT = """\
import torch


def model(x, y):
    h = torch.{op}(x * y)
    return h.sum(dim=-1, keepdim=True) / 3


def program():
    return model, (torch.zeros({rows}, {columns}), torch.ones({rows}, {columns}))
"""
OPERATORS = ["exp", "sin", "tanh", "relu", "sigmoid", "floor", "abs", "sqrt", "log1p", "erf"]


def _specs(pattern: str, shape: tuple[int, int]) -> tuple[TensorSpec, ...]:
    """Inputs of the dtypes that a pattern names, float and int being the usual ones."""
    names = re.findall(r"\b(b?float\w*|u?int\d*|bool|complex\d*)\b(?!\()", pattern)
    wide = {"float": "float32", "int": "int32", "complex": "complex64"}
    return tuple(TensorSpec(f"x{at}", wide.get(name, name), shape) for at, name in enumerate(names))


def add_bug(
    store: Store,
    kind: Kind,
    *,
    compiler: str = "inductor",
    op: str = "exp",
    shape: tuple[int, int] = (4, 6),
    stage: str = "RUN",
    status: Status = Status.NEW,
    expected: Arrays | None = None,
    got: Arrays | None = None,
    evidence: Evidence = NOTHING,
    reason: str = "",
    special: bool = False,
    failure: dict[str, str] | None = None,
    log: str = "",
    pattern: str = "",
    detail: str = "",
    **more: Any,
) -> Bug:
    """A bug with one finding; `more` goes into its verdict. `pattern` is what a hunt cut it down to."""
    rng = np.random.default_rng(len(op) + shape[1])
    path = store.path / "program.tmp"
    text = TEXT.format(op=op, rows=shape[0], columns=shape[1])
    path.write_bytes(SourceBundle("model.py", "program", {"model.py": text}).dump())
    specs = (TensorSpec("x", "float32", shape), TensorSpec("y", "float32", shape))
    program = Program(
        "source",
        "torch",
        file_digest(path),
        path,
        "model.py:program",
        _specs(pattern, shape) if pattern else specs,
        ("output",),
        tuple(re.findall(r"(\w+)\(", pattern)) if pattern else ("mul", op, "sum", "div"),
        pattern=pattern,
    )
    arrays = {spec.name: rng.standard_normal(shape).astype(np.float32) for spec in specs}
    if special:
        arrays["x"].reshape(-1)[:3] = [np.nan, np.inf, -0.0]
    case = Case(
        program,
        (Inputs(arrays, "random seed=7/graph/upsample_bicubic_corners/0/0/0"),),
        (Target.parse(compiler),),
        CheckOptions(seed=7),
    )
    artifacts = {}
    if expected is not None and got is not None:
        artifacts = {"expected": store.put_tensors(expected), "got": store.put_tensors(got)}
        evidence = replace(evidence, output=evidence.output or next(iter(expected)))
    verdict = {
        "verdict": "fail",
        "kind": str(kind),
        "reason": reason or f"output: differs by more than rounding explains ({op})",
        "evidence": replace(evidence, sample=0).to_json(),
        "failed_runs": [1, 4] if status is Status.FLAKY else [2, 2],
        "blame": "",
        **({"artifacts": artifacts} if artifacts else {}),
        **more,
    }
    execution = {
        "target": compiler,
        "outcome": {Kind.CRASH: "CRASH", Kind.ERROR: "ERROR"}.get(kind, "OK"),
        "stage": stage,
        "failure": failure,
        "log": log,
        "durations": {"compile": 1.25, "run": 0.01, "total": 1.3},
        "version": {"inductor": "2.13.0+cpu", "onnxruntime": "1.31.1", "tvm": "0.27.0"}.get(compiler, "1.0"),
    }
    mark = Fingerprint(compiler, stage, str(kind), detail or pattern or f"mul+{op}+sum")
    bug = store.add_finding(
        mark,
        case,
        Target.parse(compiler),
        summary=verdict["reason"],
        status=status,
        verdict=verdict,
        execution=execution,
    )
    path.unlink()
    return bug


def pair(shape: tuple[int, ...], wrong: str) -> tuple[Arrays, Arrays]:
    """What was expected and what came, wrong in a pattern: `rows`, `few`, `nan`, `ints`, `complex`."""
    rng = np.random.default_rng(3)
    right = rng.standard_normal(shape).astype(np.float32)
    value = right + (rng.standard_normal(shape) * 6e-8).astype(np.float32)
    if wrong == "rows":
        value[..., shape[-1] // 2 :] *= 1 + np.float32(10) ** rng.uniform(-5, 0, value[..., shape[-1] // 2 :].shape)
    elif wrong == "few":
        value.reshape(-1)[:: max(3, value.size // 5)] += np.float32(0.01)
    elif wrong == "nan":
        right.reshape(-1)[1::5] = np.nan
        value.reshape(-1)[1::5] = 0.0
        value.reshape(-1)[3::7] = np.inf
    elif wrong == "ints":
        whole = rng.integers(-9, 9, shape)
        return {"output": whole}, {"output": np.where(rng.random(shape) < 0.2, whole + 256, whole)}
    elif wrong == "complex":
        return {"output": right.astype(np.complex64)}, {"output": (value * 1j).astype(np.complex64)}
    return {"output": right}, {"output": value.astype(np.float32)}


TRACE = 'Traceback (most recent call last):\n  File "lower.py", line 71, in visit\nKeyError: <class "relax.Reshape">'


def fill(folder: Path, *, hunts: bool = True) -> Path:
    """A store with a dozen bugs of all kinds and, unless told otherwise, two hunts."""
    with Store.create(folder) as store:
        bugs = _fill_bugs(store)
        if hunts:
            _fill_hunts(HuntLog(store), [bug.id for bug in bugs])
    return folder


def _fill_bugs(store: Store) -> list[Bug]:
    others = {
        "onnxruntime": "pass",
        "tvm": "rejected: no Exp for float16",
        "openvino": "rejected: RuntimeError: Exception from src/inference/src/cpp/core.cpp:105:" + "x" * 60,
    }
    right, wrong = pair((12, 64), "rows")
    sigma = Evidence(sigma=6e-8, z=900.0)
    reason = (
        "output: at (3, 40) expected 0.24418, got 0.29871: legal rounding moves it"
        " by 6e-08; the compiler moved it by 9.1e+05 times that"
    )
    bugs = [
        add_bug(
            store,
            Kind.WRONG_VALUE,
            expected=right,
            got=wrong,
            evidence=sigma,
            reason=reason,
            others=others,
            shape=(12, 64),
        ),
        add_bug(
            store,
            Kind.CRASH,
            compiler="tvm",
            op="floor",
            stage="COMPILE",
            failure={"type": "SIGSEGV", "message": "the process died of signal 11", "traceback": ""},
            log='Fatal Python error: Segmentation fault\n  File "codegen.py", line 12 in <module>',
            reason="the process died while compiling: SIGSEGV",
        ),
    ]
    for kind, op, shape, pattern in (
        (Kind.WRONG_VALUE, "sin", (1, 96), "few"),
        (Kind.WRONG_NONFINITE, "log1p", (40,), "nan"),
        (Kind.WRONG_VALUE, "abs", (3, 5), "ints"),
        (Kind.WRONG_VALUE, "erf", (6,), "complex"),
    ):
        right, wrong = pair(shape, pattern)
        bugs.append(
            add_bug(
                store,
                kind,
                compiler="onnxruntime",
                op=op,
                expected=right,
                got=wrong,
                special=pattern == "nan",
                others=others,
            )
        )
    bugs += [
        add_bug(
            store,
            Kind.WRONG_DTYPE,
            op="relu",
            evidence=Evidence(output="output"),
            reason="output has dtype int64, expected uint8",
        ),
        add_bug(
            store,
            Kind.WRONG_NONFINITE,
            op="sqrt",
            special=True,
            evidence=Evidence(worst=(Element((1,), math.nan, 0.0),), wrong=3, elements=4),
        ),
        add_bug(
            store,
            Kind.ERROR,
            compiler="tvm",
            op="tanh",
            stage="COMPILE",
            failure={"type": "KeyError", "message": 'class "relax.Reshape"', "traceback": TRACE},
            reason="raised while compiling: KeyError: relax.Reshape",
        ),
        add_bug(store, Kind.TIMEOUT, compiler="tvm", op="erf", stage="COMPILE"),
        add_bug(
            store,
            Kind.WRONG_VALUE,
            op="sigmoid",
            reason="sigmoid of bfloat16 loses its sign <b>",
            status=Status.KNOWN,
        ),
        add_bug(store, Kind.WRONG_VALUE, op="floor", status=Status.FLAKY),
    ]
    store.mark(add_bug(store, Kind.ERROR, op="abs").id, Status.FIXED)
    return bugs


def _fill_hunts(log: HuntLog, bugs: list[str]) -> None:
    rng = np.random.default_rng(5)
    environment = {
        "versions": {"inductor": "2.13.0+cpu", "onnxruntime": "1.31.1", "tvm": "0.27.0", "openvino": "2026.4.1"},
        "python": "3.11.9",
        "platform": "Linux-6.1 x86_64",
        "driftline": "0.1.0",
    }
    for seed in (1, 2):
        plan = {
            "seed": seed,
            "targets": ["inductor", "onnxruntime", "tvm", "openvino"],
            "generators": ["graph", "mutate"],
            "inputs": "mixed",
            "budget": 3600,
        }
        hunt = log.begin(plan, environment)
        lanes = ("inductor", "onnxruntime:opt=all", "tvm", "openvino")
        for lane in lanes:
            for number in range(6):
                log.add_turn(
                    hunt,
                    Turn(lane, number, turn_body(rng, lane, number)),
                    [SuspectBody({"arm": f"p{i}"}, True, "wrong-value", "RUN", "") for i in range(3)],
                )
        waiting = [suspect for lane in lanes for suspect in log.waiting(hunt, lane, new=True)]
        for suspect, bug in zip(waiting, [*bugs, *bugs[:3]] * 3, strict=False):
            state = ("bug", "bug", "bug", "gone", "flaky", "unexamined")[suspect.id % 6]
            log.settle(suspect, state, [bug] if state == "bug" else [])
        log.spend(hunt, 1800.0 + 100 * seed)
        log.finish(hunt)


def turn_body(rng: np.random.Generator, lane: str, number: int) -> TurnBody:
    names = [*OPERATORS, "matmul", "conv2d", "softmax", "cumsum", "argmax", "scatter_add", "unfold", "layer_norm"]
    dtypes = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool", "complex64"]
    rejected = 30 + int(rng.integers(40)) if lane != "tvm" else 140
    counts = {"pass": 200 - rejected - 9, "fail": 3, "rejected": rejected, "inconclusive": 4, "invalid": 2}
    coverage = {}
    for name in names:
        for dtype in dtypes:
            if rng.random() < 0.5:
                state = (
                    "rejected"
                    if name == "unfold"
                    else str(rng.choice(["pass", "pass", "pass", "rejected", "inconclusive"]))
                )
                coverage[f"{name} {dtype}"] = {state: int(rng.integers(1, 60))}
    coverage["exp float32"] = {"pass": 40, "fail": 2}
    return TurnBody(
        seconds=41.5,
        programs=200,
        counts=counts,
        reasons={
            "rejected": {
                f"{lane.partition(':')[0]}: Could not find an implementation for Exp(13) of bfloat16": rejected - 5,
                "dtype complex64 is not supported": 5,
            },
            "inconclusive": {
                "the reference is NaN everywhere: there is nothing to compare": 3,
                "no element could be judged: the result is too ill-conditioned": 1,
            },
            "invalid": {"the reference raises IndexError": 2},
        },
        coverage=coverage,
        arms=(("graph", "exp", 150, 0.1), ("mutate", "", 50, 1.0)),
    )
