"""Reductions on real workers: what must go goes, what matters stays, nothing else is taken for the bug."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from driftline.checking.checker import Checker
from driftline.checking.open import LoadedProgram, open_program, open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.evidence import Evidence
from driftline.core.plugins import load_plugins
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.diagnose.reduce.question import Votes
from driftline.diagnose.reduce.reducer import MINIMAL, DoesNotFail, Reduction, reduce_case
from driftline.diagnose.reduce.signature import Signature
from driftline.execute.pool import Pool
from driftline.testing import planted_plugin

PLUGINS = (str(Path(__file__).with_name("reduce_backends.py")), planted_plugin())
WRONG = Signature("RUN", "wrong-value")


@pytest.fixture(scope="module", autouse=True)
def backends() -> None:
    load_plugins(PLUGINS)


def model_of(nodes: Sequence[Any], output: str, constants: dict[str, Any] | None = None, shape: Any = (4, 6)) -> Any:
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, [None] * len(shape))],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def chain(*kinds: str) -> Any:
    """One operator after the other."""
    names = ["x", *(f"v{at}" for at in range(len(kinds)))]
    nodes = [helper.make_node(kind, [names[at]], [names[at + 1]]) for at, kind in enumerate(kinds)]
    return model_of(nodes, names[-1])


LONG = ["Tanh", "Neg", "Abs", "Sigmoid"] * 8
FAR_APART = [*LONG[:5], "Erf", *LONG[5:26], "Softplus", *LONG[26:]]


def opened(model: Any, folder: Path, pool: Pool) -> LoadedProgram:
    path = folder / "model.onnx"
    onnx.save(model, str(path))
    return open_program(str(path), pool, CheckOptions())


def reduced(
    model: Any,
    target: str,
    folder: Path,
    checker: Checker,
    samples: Sequence[Any] = (),
    signature: Signature = WRONG,
    votes: Votes | None = None,
    **options: Any,
) -> Reduction:
    program = opened(model, folder, checker.pool).program
    shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
    plain = np.linspace(-2, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    given = tuple(Inputs({"x": array}, "given") for array in samples or [plain])
    case = Case(program, given, (Target.parse(target),), CheckOptions(plugins=PLUGINS, **options))
    return reduce_case(checker, case, signature, budget=900, votes=votes or Votes())


def operators(found: Reduction) -> list[str]:
    return sorted(found.case.program.operators)


def test_one_wrong_operator_among_many(checker: Checker, tmp_path: Path) -> None:
    found = reduced(chain(*LONG, "Softsign", *["Neg", "Abs"] * 16), "planted-wrong-on:op=softsign", tmp_path, checker)
    assert (operators(found), found.ended) == (["Softsign"], MINIMAL)
    assert found.smallest and found.smallest.result.failed_runs == (2, 2)
    assert found.after.elements == 1
    assert found.queries < 40
    sizes = [step.size for step in found.steps]
    assert sizes == sorted(sizes, reverse=True)


def test_the_nearest_passing_program_is_kept(checker: Checker, tmp_path: Path) -> None:
    found = reduced(chain("Tanh", "Softsign"), "planted-wrong-on:op=softsign", tmp_path, checker)
    assert found.nearest is not None
    (result,) = checker.check(found.nearest).results
    assert str(result.verdict.judgement) == "pass"


@pytest.mark.parametrize("target", ["odd-far-apart", "odd-flow", "odd-observed"])
def test_two_operators_far_apart(target: str, checker: Checker, tmp_path: Path) -> None:
    found = reduced(chain(*FAR_APART), target, tmp_path, checker)
    assert (operators(found), found.ended) == (["Erf", "Softplus"], MINIMAL)


def test_branches_around_a_bug_that_must_not_be_watched(checker: Checker, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Erf", ["x"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("Softplus", ["a"], ["c"]),
        helper.make_node("Add", ["b", "c"], ["d"]),
        helper.make_node("ReduceSum", ["d", "axes"], ["e"], keepdims=1),
        helper.make_node("Mul", ["d", "e"], ["f"]),
    ]
    model = model_of(nodes, "f", {"axes": np.array([1])})
    found = reduced(model, "odd-observed", tmp_path, checker)
    assert {"Erf", "Softplus"} <= set(operators(found))
    assert len(operators(found)) <= 3


def test_a_size_above_a_threshold(checker: Checker, tmp_path: Path) -> None:
    model = model_of([helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Erf", ["a"], ["y"])], "y", shape=(5, 64))
    found = reduced(model, "odd-above-size", tmp_path, checker)
    assert operators(found) == ["Erf"]
    assert 38 <= found.after.elements < 64


def test_several_samples_become_the_one_that_fails(checker: Checker, tmp_path: Path) -> None:
    tame = np.zeros((4, 6), np.float32)
    wild = tame.copy()
    wild[2, 3] = 9
    found = reduced(chain("Abs", "Neg"), "odd-second-sample", tmp_path, checker, [tame, wild])
    assert len(found.case.samples) == 1
    assert found.after.operators == 1
    assert found.case.samples[0].arrays["x"].max() > 5


def test_empty_optional_inputs_stay_empty(checker: Checker, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Tanh", ["x"], ["a"]),
        helper.make_node("Clip", ["a", "", "high"], ["b"]),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    found = reduced(model_of(nodes, "y", {"high": np.float32(0.5)}), "odd-optional", tmp_path, checker)
    assert operators(found) == ["Clip"]
    (node,) = onnx.load_model_from_string(found.case.program.path.read_bytes()).graph.node
    assert len(node.input) == 3 and not node.input[1]


def test_results_that_are_not_asked_for_and_subgraphs(checker: Checker, tmp_path: Path) -> None:
    """An LSTM of which only the last state is read, and a branch that reads a value from outside."""
    inner = helper.make_graph(
        [helper.make_node("Softsign", ["hidden"], ["inside"])],
        "inner",
        [],
        [helper.make_tensor_value_info("inside", TensorProto.FLOAT, [None, None, None])],
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["hidden"], ["outside"])],
        "other",
        [],
        [helper.make_tensor_value_info("outside", TensorProto.FLOAT, [None, None, None])],
    )
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["", "hidden"], hidden_size=2),
        helper.make_node("If", ["yes"], ["chosen"], then_branch=inner, else_branch=other),
        helper.make_node("Erf", ["chosen"], ["a"]),
        helper.make_node("Neg", ["a"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((1, 8, 3)).astype(np.float32),
        "r": rng.standard_normal((1, 8, 2)).astype(np.float32),
        "yes": np.array(True),
    }
    found = reduced(model_of(nodes, "y", weights, (4, 2, 3)), "planted-wrong-on:op=erf", tmp_path, checker)
    assert found.before.operators == 4
    assert operators(found) == ["Erf"]
    found = reduced(model_of(nodes, "y", weights, (4, 2, 3)), "planted-wrong-on:op=if", tmp_path, checker)
    assert operators(found) == ["If"]


def test_matching_infinities_are_no_difference(checker: Checker, tmp_path: Path) -> None:
    """Infinities on both sides must not make a passing candidate look like a failing one."""
    nodes = [
        helper.make_node("Div", ["x", "zero"], ["a"]),
        helper.make_node("Softsign", ["x"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Concat", ["c", "b"], ["y"], axis=0),
    ]
    model = model_of(nodes, "y", {"zero": np.float32(0)})
    found = reduced(model, "planted-wrong-on:op=softsign", tmp_path, checker)
    assert operators(found) == ["Softsign"]


def test_a_hang_is_reduced_within_its_time_limit(checker: Checker, tmp_path: Path) -> None:
    signature = Signature("RUN", "timeout")
    found = reduced(chain("Tanh", "Erf", "Neg"), "odd-hanging", tmp_path, checker, signature=signature, timeout=1.5)
    assert operators(found) == ["Erf"]


def test_a_crash_in_one_run_of_five(checker: Checker, tmp_path: Path) -> None:
    target = f"odd-flaky:counter={tmp_path.parent.name}"
    signature = Signature.of("RUN", "crash", Evidence(signal="SIGABRT"))
    found = reduced(chain("Tanh", "Erf"), target, tmp_path, checker, signature=signature, votes=Votes.for_rate(2, 10))
    assert operators(found) == ["Erf"]
    assert found.votes.runs >= 10


def test_what_passes_cannot_be_reduced(checker: Checker, tmp_path: Path) -> None:
    with pytest.raises(DoesNotFail, match="does not fail"):
        reduced(chain("Tanh", "Neg"), "odd-far-apart", tmp_path, checker)


# -- torch -------------------------------------------------------------------------------------------------------------


def torch_reduced(text: str, target: str, checker: Checker, signature: Signature = WRONG) -> Reduction:
    options = CheckOptions(plugins=PLUGINS)
    bundle = SourceBundle("model.py", "program", {"model.py": text})
    found = open_source(bundle, checker.pool, options)
    case = Case(found.program, (Inputs(found.example, "example"),), (Target.parse(target),), options)
    return reduce_case(checker, case, signature, budget=900)


RESNET_LIKE = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.again = nn.BatchNorm2d(width)

    def forward(self, x):
        return torch.relu(x + self.again(self.second(torch.relu(self.norm(self.first(x))))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(4) for _ in range(28))
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        for at, block in enumerate(self.blocks):
            x = block(x)
            if at == 17:
                x = x * torch.nn.functional.hardswish(x)
        return torch.softmax(self.head(x.mean((2, 3))), -1)


def program():
    return Net().eval(), (torch.randn(1, 4, 6, 6),)
"""

TRANSFORMER_LIKE = """
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.keys, self.queries, self.values = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.again = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        h = self.norm(x)
        scores = torch.softmax(self.queries(h) @ self.keys(h).transpose(-1, -2) / 4, -1)
        x = x + scores @ self.values(h)
        return x + self.down(torch.nn.functional.gelu(self.up(self.again(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(8) for _ in range(10))

    def forward(self, x):
        for at, layer in enumerate(self.layers):
            x = layer(x)
            if at == 6:
                x = x + torch.logsumexp(x, -1, keepdim=True)
        return x


def program():
    return Net().eval(), (torch.randn(2, 5, 8),)
"""


@pytest.mark.parametrize(
    ("text", "op", "least"),
    [
        pytest.param(RESNET_LIKE, "hardswish", 190, marks=pytest.mark.slow, id="resnet"),
        pytest.param(TRANSFORMER_LIKE, "logsumexp", 140, id="transformer"),
    ],
)
def test_a_wrong_operator_in_a_large_model(text: str, op: str, least: int, checker: Checker) -> None:
    found = torch_reduced(text, f"planted-wrong-on:op={op}", checker)
    assert found.before.operators >= least
    assert (operators(found), found.ended) == ([op], MINIMAL)
    assert found.after.elements <= 2


IN_PLACE = """
import torch


def model(x):
    y = x.clone()
    y.add_(1)
    z = torch.chunk(y, 2, -1)
    z[0].mul_(2)
    return torch.celu(y).sum(-1), z[1]


def program():
    return model, (torch.randn(4, 6).t(),)
"""


def test_programs_that_write_into_memory_and_take_results_apart(checker: Checker) -> None:
    found = torch_reduced(IN_PLACE, "planted-wrong-on:op=celu", checker)
    assert operators(found) == ["celu"]


UNTRACEABLE = """
import torch


def model(x):
    \"\"\"Dynamo cannot follow this.\"\"\"
    y = torch.tanh(x)
    scale = float(y.abs().max().numpy())
    y = torch.celu(y * scale)
    print("hello")
    return torch.sigmoid(y) + 1


def program():
    return model, (torch.randn(3, 4),)
"""


def test_what_cannot_be_traced_is_reduced_as_text_or_at_a_lower_level(checker: Checker) -> None:
    found = torch_reduced(UNTRACEABLE, "planted-wrong-on:op=celu", checker)
    assert found.after.operators <= 2
    assert "celu" in SourceBundle.load(found.case.program.path.read_bytes()).text
    assert "hello" not in SourceBundle.load(found.case.program.path.read_bytes()).text


def test_a_candidate_that_fails_in_another_way_is_kept_and_not_followed(checker: Checker, tmp_path: Path) -> None:
    found = reduced(chain(*FAR_APART), "odd-two-faced", tmp_path, checker)
    assert operators(found) == ["Erf", "Softplus"]
    (other,) = found.others
    assert other.result.verdict.kind == "error" and "lost its Erf" in other.result.verdict.reason
    assert list(other.case.program.operators) == ["Softplus"]
