"""What a model writes becomes a program, or gets the name of what is wrong with it."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
import torch

from driftline.checking.batch import Screening
from driftline.checking.batch_requests import InvalidProgram, NothingMade, PreparedProgram, ProgramRequest
from driftline.core.config import cache_home
from driftline.core.private import private_folder
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.generate.authored import bounds, names
from driftline.generate.authored.program import make_program
from driftline.generate.authored.sizes import TRIES, other_shapes, varied_shapes
from driftline.generate.authored.sketch import make_sketch
from driftline.generate.base import GeneratorRequest
from driftline.llm.answers import code_of, digest_of

GOOD = """\
import torch

def model(x, y):
    return torch.relu(x @ y) + 1

def program():
    return model, (torch.randn(3, 4), torch.randn(4, 5))
"""

FLAT = """\
import torch
class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, width, 1)
    def forward(self, x1):
        v1 = self.conv(x1)
        return v1 * torch.sigmoid(v1)
# Initializing the model
m = Model(8)
# Inputs to the model
x1 = torch.randn(1, 3, 16, 16)
__output__ = m(x1)
print(__output__.shape)
"""


def test_a_program_in_the_form_that_was_asked_for_stays_as_it_is() -> None:
    made = make_program(GOOD)
    assert made.content == GOOD
    assert [(plan.spec.name, plan.spec.shape) for plan in made.inputs] == [("x", (3, 4)), ("y", (4, 5))]
    assert set(made.operators) == {"relu", "matmul", "add"}


def test_a_flat_program_is_folded_into_a_factory() -> None:
    made = make_program(FLAT)
    assert "def program():" in made.content and "print" not in made.content and ".eval()" in made.content
    assert made.inputs[0].spec.shape == (1, 3, 16, 16)


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nclass M(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\nx = torch.ones(2)\n",
        "import torch\nclass M(torch.nn.Module):\n  def forward(self, x):\n    return x + 1\nx1 = torch.ones(2)\n",
        "import torch\ndef f(a, p):\n    return a * p\na = torch.ones(2)\np = 0.5\n",
        "import torch\ndef f(a, b=2):\n    return a * b\na = torch.ones(2)\n",
        "import torch\ndef f(a):\n    return a * 2\nif __name__ == '__main__':\n    print(f(torch.ones(2)))\n",
        GOOD + "\nmodel_, inputs = program()\nprint(model_(*inputs))\n",
    ],
    ids=[
        "class without instance",
        "inputs of another name",
        "a constant",
        "function",
        "main guard",
        "called at the end",
    ],
)
def test_other_forms_are_understood(text: str) -> None:
    assert make_program(text).inputs


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def program(:", names.NOT_PYTHON),
        ("I am sorry, I cannot do that.", names.NOT_PYTHON),
        ("(" * 5000, names.NOT_PYTHON),
        ("", names.NOT_PYTHON),
        ("import os\n" + GOOD, names.FORBIDDEN_IMPORT),
        ("from torchvision import models\n" + GOOD, names.FORBIDDEN_IMPORT),
        ("from . import other\n" + GOOD, names.FORBIDDEN_IMPORT),
        ("import torch.distributed as d\n" + GOOD, names.FORBIDDEN_CALL),
        (GOOD + "torch.compile(model)\n", names.FORBIDDEN_CALL),
        (GOOD.replace("torch.relu(x @ y)", "torch.set_default_dtype(x.dtype)"), names.FORBIDDEN_CALL),
        ("import torch as t\nt.relu = t.abs\n" + GOOD, names.FORBIDDEN_CALL),
        ("import torch.nn.functional as F\nF.relu = abs\n" + GOOD, names.FORBIDDEN_CALL),
        ("from torch import hub as h\n" + GOOD + "h.load('x')\n", names.FORBIDDEN_CALL),
        (GOOD.replace("torch.relu(x @ y) + 1", "{'a': object(), 3: x}"), names.NO_TENSOR),
        (GOOD.replace("torch.relu(x @ y) + 1", "x + " + "(" * 150 + "1" + ")" * 150), ""),
        (GOOD + "z = " + "-" * 3000 + "1\n", names.NOT_PYTHON),
        (GOOD + "z = " + "-" * 600 + "1\n", names.NOT_PYTHON),
        (GOOD.replace("torch.relu(x @ y)", "open('x')"), names.FORBIDDEN_CALL),
        (GOOD.replace("torch.relu(x @ y)", "().__class__.__bases__"), names.FORBIDDEN_CALL),
        ("import torch\nx = torch.ones(3)\n", names.NO_MODEL),
        ("import torch\ndef f(a):\n    return a\n", names.NO_MODEL),
        ("import torch\ndef program():\n    return 3\n", names.NO_MODEL),
        (GOOD.replace("torch.relu(x @ y) + 1", "torch.nope(x)"), names.DOES_NOT_RUN),
        (GOOD.replace("torch.relu(x @ y) + 1", "exit_code"), names.DOES_NOT_RUN),
        (GOOD.replace("return torch.relu(x @ y) + 1", "raise SystemExit(3)"), names.DOES_NOT_RUN),
        (GOOD.replace("torch.relu(x @ y) + 1", "3"), names.NO_TENSOR),
        (GOOD.replace("torch.relu(x @ y) + 1", "None"), names.NO_TENSOR),
        ("import torch\ndef f():\n    return torch.ones(3)\ndef program():\n    return f, ()\n", names.NO_TENSOR),
        (GOOD.replace("+ 1", "+ torch.rand(3, 5)"), names.RANDOM),
        (GOOD.replace("torch.randn(3, 4)", "torch.ones(1 << 44)"), names.MEMORY),
        (GOOD.replace("    return torch", "    h = [0]\n    while True: h += h\n    return torch"), names.MEMORY),
        (GOOD.replace("    return torch", "    while True:\n        try: x = x + 0\n        except Exception: pass\n"
                      "    return torch"), names.ENDLESS),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_name(text: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SECONDS", 2.0)
    monkeypatch.setattr(bounds, "BYTES", 1 << 30)
    try:
        make_program(text)
    except names.Unusable as error:
        assert error.name == name, error
    else:
        assert not name


@pytest.mark.parametrize(
    ("old", "shape"),
    [("torch.randn(3, 4)", "torch.randn(3, 7)"), ("torch.randn(3, 4)", "torch.randn(4)[:, None, None, None]")],
)
def test_other_sizes_are_tried_before_it_is_given_up(old: str, shape: str) -> None:
    made = make_program(GOOD.replace(old, shape))
    assert "given_program" in made.content
    x, y = (plan.spec.shape for plan in made.inputs)
    assert x[-1] == y[-2]


def test_channels_that_do_not_fit_are_found() -> None:
    made = make_program(FLAT.replace("torch.randn(1, 3, 16, 16)", "torch.randn(1, 4, 16, 16)"))
    assert made.inputs[0].spec.shape[1] == 3


@pytest.mark.parametrize("given", ["(torch.randn(3, 4), torch.randn(4, 5), torch.ones(2))", "(torch.randn(4, 4),)"])
def test_a_model_is_given_as_many_inputs_as_it_takes(given: str) -> None:
    made = make_program(GOOD.replace("(torch.randn(3, 4), torch.randn(4, 5))", given))
    assert [plan.spec.name for plan in made.inputs] == ["x", "y"]


def test_a_copy_runs_on_other_sizes_or_not_at_all() -> None:
    shapes = set()
    for number in range(8):
        made = make_program(GOOD, other_sizes=random.Random(number))
        x, y = (plan.spec.shape for plan in made.inputs)
        assert (x, y) != ((3, 4), (4, 5)) and x[1] == y[0]
        shapes.add((x, y))
    assert len(shapes) > 3
    fixed = GOOD.replace("x @ y", "x.reshape(3, 4) @ y.reshape(4, 5)")
    with pytest.raises(names.Unusable, match="other sizes") as told:
        make_program(fixed, other_sizes=random.Random(0))
    assert told.value.name == names.COPY


def test_arguments_that_may_be_given_are_kept() -> None:
    optional = GOOD.replace("model(x, y)", "model(x, y, z=None)", 1).replace("+ 1", "+ (1 if z is None else z)")
    more = GOOD.replace("model(x, y)", "model(x, *more)", 1).replace("x @ y", "x @ more[0] + more[1]")
    for text in (optional, more):
        made = make_program(text.replace("torch.randn(4, 5)", "torch.randn(9, 5), torch.ones(5)"))
        assert [plan.spec.shape for plan in made.inputs] == [(3, 4), (4, 5), (5,)]


def test_a_copy_of_a_program_that_was_made_to_fit_runs_on_other_sizes_than_that() -> None:
    text = GOOD.replace("torch.randn(4, 5)", "torch.randn(9, 5)")
    fitted = [plan.spec.shape for plan in make_program(text).inputs]
    for number in range(4):
        made = make_program(text, other_sizes=random.Random(number))
        assert [plan.spec.shape for plan in made.inputs] != fitted


def test_sizes_of_copies_stay_small() -> None:
    for shapes in varied_shapes([(1, 1, 1, 1, 64), (1, 64)], random.Random(0)):
        assert all(torch.Size(shape).numel() <= 1 << 20 for shape in shapes)


def test_the_search_over_sizes_ends() -> None:
    tried = list(other_shapes([(2, 3, 4), (5, 6, 7)], "shapes 3 and 7 at 11", "x = [8, 9, 10, 12, 13, 14, 15]"))
    assert len(tried) == TRIES == len(set(map(tuple, tried)))


def test_a_sketch_is_a_valid_program() -> None:
    request = GeneratorRequest("torch", "rule", 0, text="1. matmul\n2. relu,\n3. no_such_thing\n- `sum`", mode="sketch")
    made = make_sketch(request)
    assert made.graph and {"matmul", "relu", "sum"} >= set(made.graph.operators) and len(made.graph.nodes) >= 2
    assert make_sketch(request).content == made.content
    with pytest.raises(names.Unusable) as error:
        make_sketch(GeneratorRequest("torch", "rule", 0, text="Sure! Here you are: relus"))
    assert error.value.name == names.NO_OPERATORS


# What SmolLM2-135M-Instruct answered to four requests for a sketch, as far as here.
RECORDED = (
    "You've already listed out the two to eight of the necessary functions to make the rule fire. \n\nThe function"
    " `all_wise_f` is a matlab function that takes two arguments and applies them to matrices of o",
    "The compiler has the rewrite rule, pointless_permute_pair, applied to the function `x = x.permute(p).permute(q)`."
    ' This is a specific example of a feature called "wrap-around" (wrap_around), which is a',
    "The rewrite rule `relu_clamp` is a one-to-eight-in-line rewrite rule that makes the following changes to the"
    " original one-to-eight-one-one-one rule:\n\n1. Reorder the rules: `x.relu()` becomes `x.clamp(",
    "A program that makes the rule fire would have to have a multiplication operation applied to each row of the"
    " matrices `a` and `c` and the matrices `b` and `d`. In this case, `mm_plus_mm` would only app",
)


@pytest.mark.parametrize("answer", RECORDED)
def test_answers_of_a_small_model_are_programs_or_have_a_name(answer: str) -> None:
    """It talks where it was asked for names; operators that it happens to name are taken, the rest is counted."""
    try:
        made = make_sketch(GeneratorRequest("torch", "rule", 0, text=answer, mode="sketch"))
    except names.Unusable as error:
        assert error.name == names.NO_OPERATORS
    else:
        assert made.graph and made.graph.nodes
    with pytest.raises(names.Unusable) as refused:
        make_program(answer)
    assert refused.value.name == names.NOT_PYTHON


def test_the_code_of_an_answer() -> None:
    assert code_of("Sure:\n```python\nimport torch\n```\nHope it helps.") == "import torch\n"
    assert code_of("```\na\n```\n```python\nlonger one\n```") == "longer one\n"
    assert code_of("```python\nnever closed") == "never closed\n"
    assert digest_of("x = 1  # one\n\n# two\n") == digest_of("x = 1\n") != digest_of("x = 2\n")


def test_programs_of_a_model_cost_their_worker_at_most(pool: Pool, tmp_path: Path) -> None:
    """In a batch: one that is right, one that kills its process, and two that write outside their folder, of which the
    second writes where compilers may."""
    mark = Path("/var/tmp/driftline-sandbox-test")
    killing = GOOD.replace("import torch", "import torch, numpy").replace(
        "    return torch",
        "    numpy.lib.stride_tricks.as_strided(numpy.ones(1), (1 << 40,), (8,)).sum()\n    return torch",
    )
    writing = GOOD.replace("import torch", "import torch, numpy").replace(
        "    return torch", f"    numpy.ones(3).tofile('{mark}')\n    return torch"
    )
    cache = private_folder(cache_home() / "compilers") / "poison"
    if cache.is_relative_to(tempfile.gettempdir()):
        pytest.skip("the caches lie in the temporary folder, where tests let workers write")
    poisoning = writing.replace(str(mark), str(cache))
    requests = [
        ProgramRequest("llm", "rule", number, ("random",), f"s{number}", text=text, mode="write")
        for number, text in enumerate((GOOD, killing, writing, poisoning))
    ]
    with Screening(pool, "torch") as screening:
        good, killed, *wrote = screening.prepared(requests, Target("inductor"))
        assert isinstance(good, PreparedProgram)
        assert isinstance(killed, InvalidProgram) and killed.died == "died"
        for one in wrote:
            assert isinstance(one, NothingMade) and one.name == names.DOES_NOT_RUN and "Permission" in one.reason
    assert not mark.exists() and not cache.exists()
