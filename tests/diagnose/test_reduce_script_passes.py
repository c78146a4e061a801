"""The changes that make scripts shorter: those that claim to keep the meaning keep it, and all give programs."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterable

import pytest

from driftline.diagnose.reduce.scripts.backends_kept import on_backend
from driftline.diagnose.reduce.scripts.callables import (
    class_attributes,
    fewer_parameters,
    functions_for_classes,
    variables_for_attributes,
)
from driftline.diagnose.reduce.scripts.edits import Edit, edited, written
from driftline.diagnose.reduce.scripts.expressions import fewer_elements, observed_values, parts, plainer_constants
from driftline.diagnose.reduce.scripts.inlining import inlined_calls, inlined_variables
from driftline.diagnose.reduce.scripts.likeness import place_of
from driftline.diagnose.reduce.scripts.observed import Observed, instrumented, read_observed
from driftline.diagnose.reduce.scripts.search import ScriptSearch
from driftline.diagnose.reduce.scripts.size import ScriptSize, code_lines
from driftline.diagnose.reduce.scripts.statements import deletions, unwrappings
from driftline.diagnose.reduce.scripts.tidying import tidy
from driftline.diagnose.reduce.search import BudgetEnded, CandidateAnswer

Pass = Callable[[ast.Module], Iterable[ast.Module]]


def calls(tree: ast.Module) -> Iterable[ast.Module]:
    return inlined_calls(tree, Observed(functions={"box.get": "Box.get"}))


BOX = "class Box:\n    n = 5\n    def get(self, k):\n        return self.n * k\nbox = Box()\nresult = box.get(2)\n"
SAME_MEANING = [
    (calls, "def f(a, b=2):\n    c = a + b\n    return c * a\nc = 3\nresult = f(c) + c\n"),
    (calls, "def f(a):\n    a += 1\n    return a\na = 4\nresult = (f(a), a)\n"),
    (calls, BOX),
    (calls, "def main():\n    global result\n    result = 7\nmain()\n"),
    (inlined_variables, "x = 2\ny = x + 1\nresult = y * x\n"),
    (inlined_variables, "x = 2\nx = x + 1\nresult = x\n"),
    (inlined_variables, "def double(v):\n    return 2 * v\nresult = double(4)\n"),
    (class_attributes, "class Box:\n    def __init__(self):\n        self.n = 5\nresult = Box().n\n"),
    (variables_for_attributes, "class Box:\n    pass\nn = 1\nbox = Box()\nbox.n = 5\nresult = box.n + n\n"),
    (functions_for_classes, "class F:\n    def __call__(self, x):\n        return x + 1\nf = F()\nresult = f(1)\n"),
    (fewer_parameters, "def f(a, unused):\n    return a\nresult = f(1, 2)\n"),
]  # fmt: skip


@pytest.mark.parametrize(
    "change, text", SAME_MEANING, ids=[f"{c.__name__} {n}" for n, (c, _) in enumerate(SAME_MEANING)]
)
def test_change_keeps_the_meaning(change: Pass, text: str) -> None:
    def result(program: str) -> object:
        names: dict[str, object] = {}
        exec(program, names)
        return names["result"]

    made = written(next(iter(change(ast.parse(text)))))
    assert made is not None and made != ast.unparse(ast.parse(text)) + "\n"
    assert result(made) == result(text)


def test_deletion_takes_along_what_it_leaves_homeless() -> None:
    tree = ast.parse("import os\nimport mine\nlog = []\nlog.append(1)\nfor a in log:\n    print(a)\nx = 1\nprint(x)\n")
    made = edited(tree, deletions(tree)[2:3])  # log = []
    tidy(made)
    assert written(made) == "import mine\nx = 1\nprint(x)\n"


def test_loop_becomes_one_round() -> None:
    tree = ast.parse("for a, b in zip(x, y):\n    f(a)\n")
    assert written(edited(tree, unwrappings(tree))) == "a, b = next(iter(zip(x, y)))\nf(a)\n"


def test_observed_values_functions_and_reached_statements() -> None:
    text = "def f(a):\n    if a > 5:\n        return 1\n    return a * 2\nx = f(2)\ny = [x, 'k']\nz = [f]\n"
    printed: list[str] = []
    code = instrumented(text)
    exec(code, {"print": printed.append, "__name__": "__main__"})
    seen = read_observed(text, "\n".join(printed))
    assert (seen.values["f(2)"], seen.values["[x, 'k']"], seen.functions["f"]) == ("4", "[4, 'k']", "f")
    assert "[f]" not in seen.values
    nodes = list(ast.walk(ast.parse(text)))
    missed = [ast.unparse(n) for at, n in enumerate(nodes) if isinstance(n, ast.stmt) and at not in seen.reached]
    assert missed == ["return 1"]


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\na = np.zeros((3, 4))\nx = a[:, 1:], a[..., None, ::2], a[1, :2]\n",
        "a = [1, 2]\nb = [*a, *map(str, a)]\nc = {**{'k': 1}, 'l': 2}\nd = dict(**c)\n",
        "a = f'{1 + 1:>{3}}' if (n := 2) else None\nb = [i for i in range(n) if i]\n",
        "def f(*a, k=1, **m):\n    global g\n    g = yield a\n    return (yield from ())\nx = list(f(1, k=2))\n",
        "match [1, 2]:\n    case [a, *_] if a:\n        pass\n",
        "class C:\n    x: int = 1\n    @property\n    def y(self):\n        return self.x\nz = C().y\ndel z\n",
    ],
)
def test_every_form_of_expression_can_be_observed(text: str) -> None:
    exec(instrumented(text), {"__name__": "__main__", "print": lambda *told: None})


PLACES = [
    ("output[0]", "output"),
    ("input x.history", "input"),
    ("self.first.weight.grad", "gradient"),
    ("self.mean", "state"),
    ("global total", "state"),
    ("output[0] & input x", "input and output"),
    ("random state of torch", "random state of torch"),
]


@pytest.mark.parametrize("path, place", PLACES)
def test_places_do_not_depend_on_names(path: str, place: str) -> None:
    assert place_of(path) == place


def test_fewer_lines_are_smaller() -> None:
    one, other = "x = f(1 + 2 + 3)\n", "y = 1\nx = f(y)\n# a comment\n\n"
    assert ScriptSize.of(one) < ScriptSize.of(other) and (code_lines(one), code_lines(other)) == (1, 2)


TOLD = [
    ("torch.compile(f)", "torch.compile(f, backend='aot_eager')"),
    ("torch.compile(f, mode='max-autotune')", "torch.compile(f, backend='aot_eager')"),
    ("m.compile(backend='eager', dynamic=True)", "m.compile(dynamic=True, backend='aot_eager')"),
    ("@torch.compile\ndef f():\n    pass", "@torch.compile(backend='aot_eager')\ndef f():\n    pass"),
    ("re.compile('a')", "re.compile('a')"),
]


@pytest.mark.parametrize("text, told", TOLD)
def test_target_becomes_the_backend_of_the_script(text: str, told: str) -> None:
    assert on_backend(text, "aot_eager") == told + "\n"


def texts(tree: ast.Module, edits: list[Edit]) -> list[str | None]:
    return [written(edited(tree, [edit])) for edit in edits]


def test_expressions_get_smaller_but_not_the_backend() -> None:
    tree = ast.parse("f = torch.compile(g, backend='inductor')\nx = f([3.5, h(4)], k=True)\n")
    made = texts(tree, [*parts(tree), *fewer_elements(tree), *plainer_constants(tree, 1)])
    first, second = ast.unparse(tree).splitlines()
    assert {f"{first}\nx = f([1, h(4)], k=True)\n", f"{first}\nx = f([3.5, h(4)])\n"} <= {*made}
    assert f"{first}\nx = f([3.5, 4], k=True)\n" in made and f"{first}\nx = f([h(4)], k=True)\n" in made
    assert all(text is None or "backend='inductor'" in text or text == f"f = g\n{second}\n" for text in made)


def test_observed_numbers_and_tensors_stand_for_what_makes_them() -> None:
    tree = ast.parse("x = make(n + 1)\nlog(2)\n")
    seen = Observed(values={"n + 1": "4", "make(n + 1)": "torch.ones(4)", "log(2)": "None"})
    assert texts(tree, observed_values(tree, seen, tensors=False)) == ["x = make(4)\nlog(2)\n"]
    assert texts(tree, observed_values(tree, seen, tensors=True)) == ["x = torch.ones(4)\nlog(2)\n"]


def search_for(start: str, *, confirmed: bool = True, seconds: float = 60.0) -> ScriptSearch:
    """Texts with an x fail in the same way, and are confirmed with a y."""
    return ScriptSearch(
        start,
        lambda text: CandidateAnswer.SAME if "x" in text else CandidateAnswer.PASS,
        lambda text: confirmed or "y" in text,
        time.monotonic() + seconds,
    )


def test_search_takes_what_is_smaller_and_fails() -> None:
    search = search_for("x\ny\nz\n")
    assert search.first(["y\nz\n", "x\ny\nz\nz\n", "x\nz\n", "x\n"], "lines") and search.best == "x\nz\n"
    assert not search.first(["y\nz\n"], "lines")
    assert search.known["y\nz\n"] is CandidateAnswer.PASS


def test_search_goes_back_to_what_the_judge_confirms() -> None:
    search = search_for("x\ny\nz\n", confirmed=False)
    assert search.first(["x\nz\n"], "lines")
    search.settle()
    assert search.best == "x\ny\nz\n"
    assert not search.first(["x\n"], "lines") and search.first(["x\ny\n"], "lines")
    assert search.confirmed == "x\ny\n"


def test_search_without_time_asks_nothing() -> None:
    search = search_for("x\ny\n", seconds=-1)
    with pytest.raises(BudgetEnded):
        search.first(["x\n"], "lines")
    assert (search.best, search.questions) == ("x\ny\n", 0)
