"""A bug's name comes from compiler, stage, kind, operators and dtype class, and from nothing else. These names are kept
in people's stores, baselines and issues: a change here renames all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from driftline.core.evidence import Element, Evidence, Fault, Region
from driftline.core.execution import Execution, Failure, Outcome, Stage
from driftline.core.identity import identify
from driftline.core.program import Program
from driftline.core.sentences import ended, failing
from driftline.core.target import Target
from driftline.core.tensors import TensorSpec
from driftline.core.verdict import Judgement, Kind, Verdict

WRONG = Evidence(output="y", elements=4, wrong=1, worst=(Element((0,), 1.0, 2.0),), faults=(Fault.NUMBER,))
LOST = replace(WRONG, faults=(Fault.NAN_LOST,))
TIES = replace(WRONG, faults=(Fault.TIES,))

# backend, kind, evidence, operators, dtypes -> name
FROZEN = [
    ("tvm", Kind.WRONG_VALUE, WRONG, ["relu"], ["float32"], "tvm-54ff1175"),
    ("tvm", Kind.WRONG_VALUE, WRONG, ["relu"], ["float16"], "tvm-34ec65e9"),
    ("tvm", Kind.WRONG_VALUE, WRONG, ["relu", "clamp"], ["float32"], "tvm-d7a26ece"),
    ("tvm", Kind.WRONG_NONFINITE, LOST, ["maximum"], ["float16"], "tvm-6736a0bd"),
    ("openvino", Kind.WRONG_VALUE, TIES, ["topk"], ["float32", "int64"], "openvino-e060c7a8"),
    ("openvino", Kind.WRONG_VALUE, WRONG, ["matmul"], ["int8"], "openvino-a5eedc8c"),
    ("inductor", Kind.WRONG_DTYPE, Evidence(output="y"), ["cumsum"], ["uint8"], "inductor-76e781d2"),
    ("inductor", Kind.BIAS, WRONG, ["softmax"], ["bfloat16"], "inductor-8d642e05"),
]


def program(operators: list[str], dtypes: list[str]) -> Program:
    specs = tuple(TensorSpec(f"x{n}", dtype, (2, 3)) for n, dtype in enumerate(dtypes))
    return Program("onnx", "onnx", "0" * 64, Path("p.onnx"), "p", specs, ("y",), tuple(operators))


def name(backend: str, verdict: Verdict, made: Program, stage: Stage = Stage.RUN, blame: str = "") -> str:
    execution = Execution(backend, Outcome.OK, stage)
    return identify(made, made.operators, Target(backend), execution, verdict, blame).bug_id


@pytest.mark.parametrize(("backend", "kind", "found", "operators", "dtypes", "wanted"), FROZEN)
def test_names_are_frozen(
    backend: str, kind: Kind, found: Evidence, operators: list[str], dtypes: list[str], wanted: str
) -> None:
    assert name(backend, Verdict(Judgement.FAIL, "whatever", kind, found), program(operators, dtypes)) == wanted


def test_neither_wording_nor_numbers_nor_order_nor_spelling_matter() -> None:
    made = program(["Relu", "Transpose"], ["float32"])
    plain = name("tvm", failing(Kind.WRONG_VALUE, WRONG), made)
    worse = replace(
        WRONG, wrong=3, worst=(Element((2,), -9.0, 5.0),), regions=(Region.TAIL,), z=1e9, faults=(Fault.SIGN,)
    )
    assert name("tvm", Verdict(Judgement.FAIL, "in other words", Kind.WRONG_VALUE, worse), made) == plain
    assert name("tvm", failing(Kind.WRONG_VALUE, WRONG), program(["permute", "relu", "relu"], ["float32"])) == plain
    assert name("tvm", failing(Kind.WRONG_VALUE, WRONG), replace(made, name="q", digest="1" * 64)) == plain
    assert name("tvm", failing(Kind.BIAS, WRONG), made) == plain, "a drift is a wrong value, seen on other inputs"


def test_what_makes_another_bug() -> None:
    made = program(["relu"], ["float32"])
    verdict = failing(Kind.WRONG_VALUE, WRONG)
    plain = name("tvm", verdict, made)
    others = [
        name("iree", verdict, made),
        name("tvm", verdict, program(["elu"], ["float32"])),
        name("tvm", verdict, program(["relu"], ["float64"])),
        name("tvm", failing(Kind.WRONG_NONFINITE, LOST), made),
        name("tvm", failing(Kind.WRONG_VALUE, TIES), made),
        name("tvm", verdict, made, blame="torch.onnx"),
        name("tvm", verdict, replace(made, circumstances=("after another call",))),
        name("tvm", replace(verdict, judgement=Judgement.REDUCED), made),
    ]
    assert len({plain, *others}) == 1 + len(others)


def test_what_is_left_over_from_another_call_has_one_name() -> None:
    """Whether it is a number, a NaN or a zero, and of which width, depends on what that call computed."""
    names = {
        name("tvm", failing(kind, found), replace(program(["exp"], [dtype]), circumstances=("after another call",)))
        for kind, found in ((Kind.WRONG_VALUE, WRONG), (Kind.WRONG_NONFINITE, LOST), (Kind.WRONG_VALUE, TIES))
        for dtype in ("float32", "float64", "float16", "bfloat16")
    }
    assert len(names) == 1
    made = replace(program(["exp"], ["float32"]), circumstances=("after another call",))
    assert name("tvm", ended(Kind.ERROR, "RUN", Failure("KeyError", "no")), made) not in names


def test_an_error_goes_by_its_class_and_operators_whatever_it_says() -> None:
    made = program(["gather"], ["int64"])

    def error(kind: str, message: str) -> str:
        return name("tvm", ended(Kind.ERROR, "COMPILE", Failure(kind, message)), made, Stage.COMPILE)

    assert error("KeyError", "no such thing: 7") == error("KeyError", "another edition of the message")
    assert error("KeyError", "no") != error("TypeError", "no")


def test_a_large_program_is_known_by_itself() -> None:
    many = program([f"op{n}" for n in range(9)], ["float32"])
    verdict = failing(Kind.WRONG_VALUE, WRONG)
    assert name("tvm", verdict, many) != name("tvm", verdict, replace(many, digest="1" * 64))
