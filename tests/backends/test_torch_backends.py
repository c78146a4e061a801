"""The compilers that take a graph out of torch code, on programs of every outward shape and on what they must refuse.

Everything runs in workers; results are held against eager ones, computed here in float64 by hand or by numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from driftline.backends import BACKENDS
from driftline.checking.checker import Checker
from driftline.checking.open import LoadedProgram, open_program
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.target import Target, parse_targets
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement

pytest.importorskip("torch")

PROGRAMS = """
from collections import namedtuple
import torch

Pair = namedtuple("Pair", "low high")
A, B = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 0.25, 0.125])

def structures():
    return (lambda d, *, y: {"z": d["a"] - y, "pair": Pair(d["a"] + y, [y, 3])}), {"y": B, "d": {"a": A}}

def same_shapes():
    return (lambda a, b, c: a - 2 * b + 4 * c), (A, B, A * B)

def no_inputs():
    return (lambda: torch.arange(4.0) + 1), ()

def zero_dimensional():
    return (lambda x: x * 2 + 1), (torch.tensor(1.5),)

def input_returned():
    return (lambda x, y: (x, x + y)), (A, B)

def changes_its_input():
    def f(x, y):
        x.add_(y)
        return x * 2
    return f, (A, B)

def integers():
    return (lambda a, b: (a * b + 3, (a > b) & (a != 0))), (torch.arange(3), torch.tensor([2, 0, 1]))

def half():
    return (lambda x: x * 2), (A.half(),)

def bfloat():
    return (lambda x: x * 2), (A.bfloat16(),)

def double():
    return (lambda x: x / 3), (A.double(),)

def keeps_state():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.ones(3))
        def forward(self, x):
            self.count.add_(x)
            return self.count * 2
    return Counter().eval(), (A,)

def branches():
    return (lambda x: x + 1 if x.sum() > 0 else x - 1), (A,)

def chooses_by_a_size():
    return (lambda x: x + 1 if x.shape[0] > 2 else x - 1), (A,)

def pooled_as_in_pointnet():
    return (lambda x: torch.nn.functional.adaptive_max_pool2d(x, 1)), (torch.ones(1, 2, 4, 1),)

def singular_values():
    return (lambda x: torch.linalg.svd(x)[1]), (torch.eye(3),)

def renormed():
    return (lambda x: torch.renorm(x, float("inf"), 0, 0.5)), (torch.ones(2, 2, dtype=torch.bfloat16),)

def draws():
    return (lambda x: x + torch.rand(3)), (A,)

def network():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(12, 4), torch.nn.Softmax(-1))
    return model.eval(), (torch.randn(2, 2, 4, 4),)
"""
A, B = np.array([1, 2, 3], np.float32), np.array([0.5, 0.25, 0.125], np.float32)
EXPECTED: dict[str, Arrays] = {
    "structures": {"z": A - B, "pair.low": A + B, "pair.high.0": B, "pair.high.1": np.asarray(3)},
    "same_shapes": {"output": A - 2 * B + 4 * A * B},
    "no_inputs": {"output": np.array([1, 2, 3, 4], np.float32)},
    "zero_dimensional": {"output": np.asarray(4, np.float32)},
    "input_returned": {"0": A, "1": A + B},
    "changes_its_input": {"output": 2 * (A + B)},
    "integers": {"0": np.array([3, 3, 5]), "1": np.array([False, True, True])},
    "half": {"output": np.array([2, 4, 6], np.float16)},
    "double": {"output": np.array([1, 2, 3], np.float64) / 3},
    "keeps_state": {"output": 2 * (A + 1)},
    "chooses_by_a_size": {"output": A + 1},
}
QUICK = ("torchscript", "torchscript:mode=trace", "torchscript:freeze=false", "executorch", "xla")


Opened = Callable[[str], LoadedProgram]


@pytest.fixture(scope="module")
def opened(checker: Checker, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """A program by its name. It is opened once for all targets, which load it again, each in its own worker."""
    file = tmp_path_factory.mktemp("opened") / "programs.py"
    file.write_text(PROGRAMS)
    return cache(lambda name: open_program(f"{file}:{name}", checker.pool, CheckOptions()))


def execute(checker: Checker, program: LoadedProgram, target: str, samples: int = 1) -> Execution:
    inputs = (Inputs(program.example, "example"),) * samples
    (parsed,) = parse_targets(target)
    return checker.execute(Case(program.program, inputs, (parsed,), CheckOptions()), parsed)


def assert_outputs(execution: Execution, expected: Arrays) -> None:
    assert execution.outcome is Outcome.OK, execution.failure
    for outputs in execution.outputs:
        assert set(outputs) == set(expected)
        for name, array in expected.items():
            assert outputs[name].dtype == array.dtype
            np.testing.assert_allclose(outputs[name], array, rtol=1e-6)


@pytest.mark.parametrize("target", QUICK)
@pytest.mark.parametrize("name", EXPECTED)
def test_results_have_the_programs_own_structure(checker: Checker, opened: Opened, name: str, target: str) -> None:
    # Two samples: what one run leaves behind must not reach the next.
    assert_outputs(execute(checker, opened(name), target, samples=2), EXPECTED[name])


@pytest.mark.parametrize("target", QUICK)
def test_bfloat16_arrives_and_returns(checker: Checker, opened: Opened, target: str) -> None:
    execution = execute(checker, opened("bfloat"), target)
    assert execution.outcome is Outcome.OK, execution.failure
    assert execution.outputs[0]["output"].dtype.name == "bfloat16"
    np.testing.assert_array_equal(execution.outputs[0]["output"].astype(np.float32), [2, 4, 6])


@pytest.mark.parametrize(
    ("name", "target", "stage"),
    [
        ("branches", "torchscript:mode=trace", Stage.CONVERT),
        ("branches", "executorch", Stage.CONVERT),
        pytest.param("branches", "aotinductor", Stage.CONVERT, marks=pytest.mark.slow),
        ("branches", "xla", Stage.CONVERT),
        ("structures", "torchscript:mode=script", Stage.CONVERT),
        ("singular_values", "executorch", Stage.COMPILE),
        ("renormed", "executorch", Stage.COMPILE),
        ("draws", "xla", Stage.COMPILE),
        ("pooled_as_in_pointnet", "xla", Stage.COMPILE),
    ],
)
def test_what_a_compiler_does_not_support_is_a_rejection(
    checker: Checker, opened: Opened, name: str, target: str, stage: Stage
) -> None:
    execution = execute(checker, opened(name), target)
    assert execution.outcome is Outcome.REJECTED
    assert execution.stage is stage


@pytest.mark.parametrize("name", ["aotinductor", "executorch", "xla"])
def test_what_torch_export_does_not_capture_is_a_rejection_for_each_that_starts_from_it(name: str) -> None:
    class UserError(Exception):
        """As torch.export calls it."""

    backend = BACKENDS.get(name)
    assert backend.captures and backend.is_rejection(UserError("data-dependent"))
    assert not backend.is_rejection(RuntimeError("data-dependent"))


@pytest.mark.parametrize("target", ["torchscript", "executorch:delegate=xnnpack", "xla:jit=off"])
def test_a_network_gives_the_eager_result(checker: Checker, opened: Opened, target: str) -> None:
    eager = execute(checker, opened("network"), "eager")
    execution = execute(checker, opened("network"), target)
    assert execution.outcome is Outcome.OK, execution.failure
    np.testing.assert_allclose(execution.outputs[0]["output"], eager.outputs[0]["output"], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_aotinductor_results_have_the_programs_own_structure(checker: Checker, opened: Opened, name: str) -> None:
    assert_outputs(execute(checker, opened(name), "aotinductor", samples=2), EXPECTED[name])


def test_a_big_program_that_writes_into_its_weights_starts_each_run_anew(checker: Checker, tmp_path: Path) -> None:
    """Of big weights no copy is kept; that they were changed, even behind torch's back, must be noticed."""
    (tmp_path / "writing.py").write_text(
        "import torch\n\n\n"
        "class Writing(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.weight = torch.nn.Parameter(torch.ones(4200, 4200))\n\n"
        "    def forward(self, x):\n"
        "        self.weight.data.add_(1)\n"
        "        return x @ self.weight\n\n\n"
        "def program():\n"
        "    return Writing(), (torch.ones(1, 4200),)\n"
    )
    opened = open_program(f"{tmp_path / 'writing.py'}:program", checker.pool, CheckOptions())
    samples = tuple(Inputs(opened.example, "example") for _ in range(3))
    case = Case(opened.program, samples, (Target("eager"),), CheckOptions(oracle="allclose:rtol=1e-6,atol=0"))
    (row,) = checker.check(case).results
    assert row.verdict.judgement is Judgement.PASS, row.verdict.reason
    assert [float(outputs["output"].max()) for outputs in row.execution.outputs] == [8400.0] * 3


def test_a_function_that_an_older_release_lacks_is_no_finding() -> None:
    """Operator tests of torch 2.13 call functions that torch 2.11 does not have."""
    lacking = AttributeError("module 'torch.nn.functional' has no attribute 'linear_cross_entropy'")
    assert BACKENDS.get("eager").is_rejection(lacking)
    assert BACKENDS.get("inductor").is_rejection(lacking)
    assert not BACKENDS.get("inductor").is_rejection(AttributeError("'NoneType' object has no attribute 'shape'"))
