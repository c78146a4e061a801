"""The table of features in the documentation is what generators write, and what a hunt sees."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from driftline.backends import BACKENDS
from driftline.campaign.check.forms import form_of
from driftline.generate import GENERATORS
from driftline.generate.base import GeneratorRequest, NoProgram
from driftline.generate.blueprint import blueprint
from driftline.generate.features import depends_on_memory, features_of, pairs_of
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.generate.table import OPERATORS
from driftline.store import Store
from driftline.store.hunts import HuntLog

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "features.md"
LANGUAGES = {"torch": "torch", "ONNX": "onnx", "JAX": "jax", "TF": "tensorflow"}
PROGRAMS = 220  # of each generator in each language


def table(head: str) -> list[dict[str, str]]:
    """The rows of the table of the page that begins with a word, by column."""
    lines = PAGE.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {head} |"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    names = [name.strip("`") for name in rows[0]]
    return [dict(zip(names, row, strict=True)) for row in rows[2:]]


def claimed() -> dict[tuple[str, str], set[str]]:
    """(generator, form) -> its features."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in table("feature"):
        feature = row.pop("feature")
        for generator, languages in row.items():
            for language in filter(None, languages.split(", ")):
                found[generator, LANGUAGES[language]].add(feature)
    return found


def written(name: str, form: str) -> set[str]:
    """The features that the programs of a generator have."""
    generator = GENERATORS.get(name)
    arms = generator.arms(form)
    found: set[str] = set()
    for turn in range(PROGRAMS):
        number = turn % 9 if name == "alone" else 40 + turn if name == "graph" else turn // len(arms)
        try:
            made = generator.make(GeneratorRequest(form, arms[turn * 13 % len(arms)], number))
        except NoProgram:
            continue
        found |= set(features_of(made))
    return found


@pytest.mark.parametrize("form", LANGUAGES.values())
@pytest.mark.filterwarnings("ignore")
def test_generators_write_what_the_table_says(form: str) -> None:
    told = claimed()
    for name in ("alone", "graph", "chains", "layers", "idioms", "constructs"):
        found = written(name, form) if form in GENERATORS.get(name).forms else set()
        assert found == told[name, form], f"{name} in {form}"


def test_compilers_show_what_the_table_says() -> None:
    rows = table("compiler")
    assert len(rows) >= 10
    for row in rows:
        backend = BACKENDS.get(row["compiler"].strip("`"))
        assert form_of(backend) == LANGUAGES[row["language"]]
        answers = (backend.gradients, backend.mutates, backend.sizes)
        assert tuple("yes" if able else "no" for able in answers) == tuple(list(row.values())[2:])


@pytest.mark.slow
def test_a_hunt_sees_the_features_of_the_table(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "driftline",
        "hunt",
        "--targets",
        "aot_eager_decomp,onnxruntime",
        "--programs",
        "120",
    ]
    done = subprocess.run(
        [*command, "--seed", "2", "--store", str(tmp_path / "s"), "--quiet"],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode in (0, 1), done.stderr
    told, seen = claimed(), defaultdict(set)
    with Store.open(tmp_path / "s") as store:
        log = HuntLog(store)
        for turn in log.turns(log.hunts()[0]):
            for name in turn.body.features:
                generator, _, feature = name.partition(": ")
                seen[generator, "onnx" if turn.lane == "onnxruntime" else "torch"].add(feature)
    for key, features in seen.items():
        if key in told:
            assert features <= told[key], key
    torch = set().union(*(features for (_, form), features in seen.items() if form == "torch"))
    assert torch >= {"gradient", "long axis", "several sizes", "write in place", "half precision"}
    assert torch & {"strided input", "expanded input"} and torch & {"branch or loop", "step of training"}
    assert "quantised" in seen["idioms", "onnx"] | seen["layers", "onnx"]


def test_pairs_are_who_reads_whose_result() -> None:
    row = TensorType("float32", (4,))
    nodes = (Node("abs", (0,), (row,)), Node("exp", (0,), (row,)), Node("add", (1, 2), (row,)))
    made = blueprint(Graph((Leaf("input", row),), nodes, (3,)), "torch")
    assert pairs_of(made) == ("abs>add", "exp>add")
    alike = [(operator, "float32") for operator in ("abs", "exp", "add")]
    assert pairs_of(replace(made, graph=None, coverage=tuple(alike))) == ("abs>exp", "exp>add"), "one after the other"


def test_who_writes_into_a_view_depends_on_memory() -> None:
    row = TensorType("float32", (4,))
    inplace = next(name for name, operator in OPERATORS.items() if operator.inplace)
    for layout, operator, depends in (
        ("strided", inplace, True),
        ("strided", "abs", False),
        ("contiguous", inplace, False),
    ):
        graph = Graph((Leaf("input", row, layout=layout),), (Node(operator, (0,), (row,)),), (1,))
        assert depends_on_memory(graph) is depends
