"""Verdicts through the whole pipeline, where the answer is neither pass nor fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_programs import Program

from driftline.checking.checker import Checker, CheckOutcome, TargetResult
from driftline.checking.open import open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.execution import Execution, Failure, Outcome, Stage
from driftline.core.program import SourceBundle
from driftline.core.target import parse_targets
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.oracle.choice import Tolerance, parse_oracle
from driftline.oracle.judge import Reference, ReferenceSample, TargetTraits, judge
from driftline.oracle.specification import CLAUSES


def check(checker: Checker, body: str, inputs: str, targets: str, options: CheckOptions | None = None) -> CheckOutcome:
    text = f"import torch\n\ndef f(x):\n    {body}\n\ndef program():\n    return f, ({inputs},)\n"
    options = options or CheckOptions()
    opened = open_source(SourceBundle("p.py", "program", {"p.py": text}), checker.pool, CheckOptions())
    sample = Inputs(opened.example, "example")
    return checker.check(Case(opened.program, (sample,), tuple(parse_targets(targets)), options))


def only(outcome: CheckOutcome) -> TargetResult:
    (row,) = outcome.results
    return row


def test_a_reference_that_is_all_nan_is_not_a_pass(checker: Checker) -> None:
    row = only(check(checker, "return x * float('nan')", "torch.ones(3)", "eager"))
    assert row.verdict.judgement == "inconclusive" and "NaN everywhere" in row.verdict.reason
    assert row.verdict.agrees, "of a case that is known to fail, this is the cure"


def test_an_unspecified_difference_in_one_sample_is_told() -> None:
    """Several samples: the one with NaN must not be hidden by those that pass."""
    programs = [Program(lambda x: x.to(torch.int8), torch.tensor(v)) for v in ([1.0, 2.0], [1e9, 2.0], [3.0, 4.0])]
    outputs = [program.copy() for program in programs]
    outputs[1]["output"][0] += 5
    samples = [ReferenceSample(p.native, p.exact, shadow=lambda _, *ask, p=p: p.shadow(*ask)) for p in programs]
    execution = Execution("any", Outcome.OK, Stage.RUN, tuple(outputs))
    trait = TargetTraits(calls_user_code=True, positional=False)
    verdict = judge(execution, Reference(tuple(samples)), trait)
    assert verdict.judgement == "inconclusive", verdict.reason
    assert verdict.evidence.unspecified == ("torch.cast-out-of-range",)
    assert "torch.Tensor.to" in CLAUSES["torch.cast-out-of-range"].source
    outputs[1]["output"][1] += 5
    assert judge(execution, Reference(tuple(samples)), trait).judgement == "fail"


def test_a_model_too_large_to_shadow_gets_a_sentence(checker: Checker) -> None:
    body = "return sum((x * k).exp() for k in range(40)) + torch.ones(6000, 6000).sum()"
    small = replace(CheckOptions(), memory_limit=600 << 20)
    row = only(check(checker, body, "torch.ones(2000, 2000)", "eager", small))
    assert row.verdict.judgement != "pass"
    assert "memory" in row.verdict.reason


def test_gradients_are_judged_by_the_same_rule(checker: Checker) -> None:
    body = "return (torch.softmax(x, -1) ** 2).sum()"
    row = only(check(checker, body, "torch.randn(4, 6)", "aot_eager_decomp", CheckOptions(grad=True)))
    assert row.verdict.judgement == "pass"


@pytest.mark.parametrize(("gradient", "judgement"), [(0.0, "pass"), (1.0, "fail")])
def test_a_gradient_of_nothing_is_none_or_zeros(gradient: float, judgement: str) -> None:
    """Eager gives no gradient to what nothing depends on; ahead of time, all of them are made."""
    program = Program(lambda x: x.exp(), torch.ones(2))
    outputs = program.copy() | {"grad:x": np.full(2, gradient, np.float32)}
    sample = ReferenceSample(program.native, program.exact, shadow=lambda _, *ask: program.shadow(*ask))
    execution = Execution("any", Outcome.OK, Stage.RUN, (outputs,))
    verdict = judge(execution, Reference((sample,)), TargetTraits(calls_user_code=True, positional=False))
    assert verdict.judgement == judgement, verdict.reason


def test_a_plain_tolerance_is_there_for_those_who_want_it(checker: Checker) -> None:
    options = CheckOptions(oracle="allclose:rtol=1e-3,atol=0")
    assert only(check(checker, "return x.exp()", "torch.randn(9)", "aot_eager", options)).verdict.judgement == "pass"
    assert parse_oracle("shadow") is None
    assert parse_oracle("allclose:rtol=0.1") == Tolerance(rtol=0.1)
    for wrong in ("alclose", "allclose:rtol=x", "allclose:tolerance=1", "allclose:atol=-1", "shadow:8"):
        with pytest.raises(DriftlineError):
            parse_oracle(wrong)


def test_outputs_without_a_name_are_called_by_their_place() -> None:
    expected = {"0": np.zeros(2), "1.key": np.zeros(3), "mutated:x": np.zeros(1), "grad:0": np.zeros(1)}
    wrong = {
        "output 0 has dtype float32, expected float64": {"0": np.zeros(2, np.float32)},
        "output 1.key has shape [4], expected [3]": {"1.key": np.zeros(4)},
        "the change of x: 1 of 1 elements differ": {"mutated:x": np.ones(1)},
        "the gradient of input 0: 1 of 1 elements differ": {"grad:0": np.ones(1)},
        "output 0: 1 of 2 elements have the other zero": {"0": np.array([0.0, -0.0])},
    }
    trait = TargetTraits(calls_user_code=True, positional=False, signed_zero=True)
    reference = Reference((ReferenceSample(native=expected, exact=expected),))
    for reason, changed in wrong.items():
        verdict = judge(Execution("any", Outcome.OK, Stage.RUN, ({**expected, **changed},)), reference, trait)
        assert verdict.reason.startswith(reason)
        assert verdict.kind == "wrong-zero-sign" or verdict.evidence.output == next(iter(changed))
    fewer = {name: expected[name] for name in ("1.key", "grad:0")}
    verdict = judge(Execution("any", Outcome.OK, Stage.RUN, (fewer,)), reference, trait)
    assert verdict.reason == "the result misses output 0, the change of x"
    tolerant = Tolerance().judge({"0": np.ones(2)}, {"0": np.zeros(2)})
    assert tolerant.reason.startswith("output 0: ")


def test_a_change_that_only_one_of_them_shows() -> None:
    """What is written over an infinity is often infinite too: that nothing changed does not say nothing was written."""
    inputs = {"x": np.array([np.inf, 2.0])}
    same = {"0": np.zeros(2)}

    def judged(got: Arrays, expected: Arrays) -> Verdict:
        reference = Reference((ReferenceSample(native=expected, exact=expected, inputs=inputs),))
        return judge(Execution("any", Outcome.OK, Stage.RUN, (got,)), reference, TargetTraits(True, False))

    hidden = {**same, "mutated:x": np.array([np.nan, 2.0])}
    assert judged(hidden, same).judgement is judged(same, hidden).judgement is Judgement.PASS
    plain = {**same, "mutated:x": np.array([np.inf, 3.0])}
    assert judged(plain, same).reason == "the result has the change of x in surplus"
    assert judged(same, plain).reason == "the result misses the change of x"


@pytest.mark.parametrize(
    ("message", "judgement"),
    [
        ("Matrix size-incompatible: In[0]: [2,3], In[1]: [4,5]", Judgement.FAIL),
        ("indices[0] = 9", Judgement.INCONCLUSIVE),
        ("indices[0] = 9 is not in [0, 3), for a shape of [3]", Judgement.INCONCLUSIVE),
        ("Integer division by zero", Judgement.INCONCLUSIVE),
        ("Cholesky decomposition was not successful. The input might not be valid.", Judgement.INCONCLUSIVE),
        ("Received a label value of 5 which is outside the valid range of [0, 4).", Judgement.INCONCLUSIVE),
    ],
)
def test_a_program_that_raises_must_do_so_compiled(message: str, judgement: Judgement) -> None:
    """By its own framework's compiler, for its shapes and types; bad values need not be errors in compiled code."""
    raised = ReferenceSample(failure=Failure("InvalidArgumentError", message))
    execution = Execution("tensorflow-xla", Outcome.OK, Stage.RUN, outputs=({"output": np.zeros(2)},))
    trait = TargetTraits(calls_user_code=False, positional=False, own_framework=True)
    verdict = judge(execution, Reference((raised,)), trait)
    assert verdict.judgement is judgement
    assert verdict.kind is (Kind.MISSING_ERROR if judgement is Judgement.FAIL else None)
    foreign = judge(execution, Reference((raised,)), TargetTraits(calls_user_code=False, positional=False))
    assert foreign.judgement is Judgement.INCONCLUSIVE


def test_buffers_are_compared_with_gradients_too(checker: Checker) -> None:
    """A wrong running variance must not hide behind right gradients."""
    text = """import torch

def program():
    torch.manual_seed(0)
    return torch.nn.BatchNorm1d(3).train(), (torch.randn(8, 3),)
"""
    options = CheckOptions(grad=True)
    opened = open_source(SourceBundle("norm.py", "program", {"norm.py": text}), checker.pool, options)
    case = Case(opened.program, (Inputs(opened.example, "example"),), tuple(parse_targets("eager")), options)
    reference = checker.reference(case)
    (row,) = checker.check(case, known_reference=reference).results
    assert row.verdict.judgement is Judgement.PASS
    name = "mutated:running_var"
    (outputs,) = row.execution.outputs
    assert {name, "grad:input"} <= set(outputs)
    wrong = replace(row.execution, outputs=({**outputs, name: outputs[name] * np.float32(8 / 7)},))
    verdict = checker.judge(case, case.targets[0], wrong, reference)
    assert (verdict.judgement, verdict.evidence.output) == (Judgement.FAIL, name)
