"""The facts of titles are read off the case: operators spelled as the program spells them, and proven calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from filled_store import add_bug

from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.evidence import Element, Evidence, Fault
from driftline.core.program import Program, SourceBundle, file_digest
from driftline.core.target import Target
from driftline.core.tensors import Array
from driftline.core.titles import KEY, TitleFacts
from driftline.core.verdict import Kind
from driftline.programs.operators import operators_in
from driftline.programs.output_path import written_to_output
from driftline.report.gather import gather_store
from driftline.report.title_facts import as_written, facts_of, numbers_given, title_operators
from driftline.report.titles import facts_of_name, title_of
from driftline.store import Store

POOL = '<ir_version: 8, opset_import: ["": 18]> g (float[1,1,4,4] x) => (float[1,1,2,2] y)\
 { c = Identity(x) y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(c) }'


def test_onnx_operators_have_onnx_names_where_the_table_lists_its_own(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(POOL), str(path))
    program = Program("onnx", "onnx", file_digest(path), path, "m", operators=("max_pool2d",))
    assert title_operators(program) == ("MaxPool",)


def test_source_operators_are_spelled_as_in_the_text(tmp_path: Path) -> None:
    text = (
        "import torch\ndef model(x):\n    return x.contiguous().add_(1).relu()\ndef program():\n    return model, ()\n"
    )
    path = tmp_path / "bundle"
    path.write_bytes(SourceBundle("m.py", "program", {"m.py": text}).dump())
    program = Program("source", "torch", file_digest(path), path, "m.py:program", operators=("add", "relu"))
    assert title_operators(program) == ("add_", "relu")


def test_operators_of_nested_calls_stand_in_the_order_of_evaluation() -> None:
    text = "def model(x):\n    return torch.relu(torch.sin(x) * 2).sum()\ndef program(): return model, ()\n"
    assert operators_in(text, "program") == ("sin", "mul", "relu", "sum")


def test_numbers_that_numpy_draws_are_no_operators() -> None:
    drawing = "np.random.default_rng(0).standard_normal(3)"
    text = f"def model(x):\n    return torch.relu(x + {drawing}).abs()\ndef program(): return model, ()"
    assert operators_in(text, "program") == ("add", "relu", "abs")
    making = "def make():\n    rng = np.random.default_rng(0)\n    return rng.standard_normal(3)\n"
    drawn = f"{making}def program(): return make, ()"
    assert operators_in(drawn, "program") == ()


TWO_OUTPUTS = '<ir_version: 8, opset_import: ["": 18]> g (float[4] x) => (float[4] y, float[4] z)\
 { m = Neg(x) y = Erf(m) z = Cos(x) }'


def test_title_names_the_operators_on_the_way_to_the_failing_output(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(TWO_OUTPUTS), str(path))
    program = Program("onnx", "onnx", file_digest(path), path, "m", operators=("neg", "erf", "cos"))
    assert title_operators(program, "y") == ("Neg", "Erf")
    assert title_operators(program, "z") == ("Cos",)
    assert title_operators(program) == ("Neg", "Erf", "Cos")


@pytest.mark.parametrize(
    ("body", "output", "expected"),
    [
        ("a = x.mean(0)\n    b = a.cumsum(0)\n    c = torch.erf(x)\n    return a, b, c", "2", ("erf",)),
        ("a = x.mean(0)\n    b = a.cumsum(0)\n    c = torch.erf(x)\n    return a, b, c", "1", ("mean", "cumsum")),
        ("a, b = x.sin().split(2)\n    return torch.exp(b)", "output", ("sin", "split", "exp")),
        ("a = x.sin()\n    x.add_(1)\n    return x.cos()", "output", ()),
        ("a = x.add_(1)\n    return x.cos()", "output", ()),
        ("for _ in range(2):\n        x = x.sin()\n    return x.cos()", "output", ()),
    ],
)
def test_operators_on_the_way_are_read_off_plain_text_alone(body: str, output: str, expected: tuple[str, ...]) -> None:
    text = f"def model(x):\n    {body}\ndef program():\n    return model, ()\n"
    assert written_to_output(text, "program", output) == expected


@pytest.mark.parametrize(
    ("written", "listed", "expected"),
    [
        (["MaxPool"], ["max_pool2d"], ["MaxPool"]),
        (["add"], ["add", "real"], ["add", "real"]),
        (["square", "sum"], ["sum_square"], ["square", "sum"]),
        (["pad", "exp"], ["exp"], ["exp"]),
        ([], ["exp"], ["exp"]),
    ],
)
def test_listed_operators_take_the_spelling_of_the_text(
    written: list[str], listed: list[str], expected: list[str]
) -> None:
    assert as_written(written, listed) == expected


def floats(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def test_a_call_is_shown_only_where_numpy_proves_it() -> None:
    nan, x, y = Element((1,), np.nan, 0.5), floats(1, np.nan), np.array([[2.0]], np.float32)
    bases, powers = np.array([[3, 2]], np.int32), np.array([[2], [3]], np.int32)
    assert numbers_given(["exp"], [x], nan) == ("NaN",)
    assert numbers_given(["Max"], [x, np.array(2, np.float32)], nan) == ("NaN", "2")
    assert numbers_given(["pow"], [bases, powers], Element((1, 0), 27, 26)) == ("3", "3")
    assert numbers_given(["sub"], [floats(5, 7), floats(1, 2)], Element((1,), 2 - 7, 0)) == (), "swapped"
    assert numbers_given(["softmax"], [x], nan) == ()
    assert numbers_given(["exp", "log"], [x], nan) == ()
    assert numbers_given(["exp"], [y], nan) == (), "no place of the input"


GREATER = '<ir_version: 8, opset_import: ["": 18]> g (float[2] x) => (bool[2] y) <float c = {2}> { %s }'


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("y = Greater(x, x)", ("NaN", "NaN")),
        ("y = Greater(x, c)", ("NaN", "2")),
        ("y = Greater(c, x)", ("2", "NaN")),
        ("z = Identity(x) y = Greater(z, c)", ("NaN", "2")),
        ("z = Neg(x) y = Greater(z, x)", ()),
    ],
)
def test_a_call_shows_an_input_for_each_operand(text: str, given: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(GREATER % text), str(path))
    program = Program("onnx", "onnx", file_digest(path), path, "m")
    facts = facts_of(case_of(program, floats(1, np.nan)), WRONG_TRUE)
    assert facts.given == given


WRONG_TRUE = Evidence(output="y", elements=2, wrong=1, worst=(Element((1,), False, True),), faults=(Fault.NUMBER,))


def case_of(program: Program, x: Array) -> Case:
    return Case(program, (Inputs({"x": x}, "example"),), (Target.parse("eager"),), CheckOptions())


@pytest.mark.parametrize(
    ("body", "expected", "given"),
    [
        ("torch.pow(x, x)", 27, ("3", "3")),
        ("x**2", 9, ("3", "2")),
        ("torch.pow(2, x)", 8, ("2", "3")),
        ("x.pow(exponent=2)", 9, ("3", "2")),
        ("torch.pow(x.sum(), 2)", 9, ()),
    ],
)
def test_a_call_of_text_shows_its_constants(body: str, expected: int, given: tuple[str, ...], tmp_path: Path) -> None:
    text = f"import torch\ndef model(x):\n    return {body}\ndef program():\n    return model, ()\n"
    path = tmp_path / "bundle"
    path.write_bytes(SourceBundle("m.py", "program", {"m.py": text}).dump())
    program = Program("source", "torch", file_digest(path), path, "m.py:program")
    found = Evidence(output="output", elements=2, wrong=1, worst=(Element((1,), expected, 0),), faults=(Fault.NUMBER,))
    assert facts_of(case_of(program, np.array([1, 3])), found).given == given


def test_a_stored_bug_keeps_the_facts_of_its_title(tmp_path: Path) -> None:
    found = Evidence(
        output="output", elements=4, wrong=1, worst=(Element((0,), np.nan, 0.0),), faults=(Fault.NAN_LOST,)
    )
    facts = TitleFacts(("maximum",), ("float64",), ("with gradient",), ("NaN", "0"), ordinary=False)
    with Store.create(tmp_path) as store:
        bug = add_bug(store, Kind.WRONG_NONFINITE, evidence=found, **{KEY: facts.to_json()})
        assert title_of(store.bug(bug.id)) == "maximum(NaN, 0) of float64 with gradient returns 0"
        older = add_bug(store, Kind.WRONG_NONFINITE, op="sin", evidence=found, detail="relu+sin of double")
        assert title_of(older) == "relu → sin of float64 loses NaN: 0 where NaN is right"
        case = store.load_case(older.findings[0].case_id)
        assert title_of(older, facts_of(case, found)).startswith("mul → sin → sum → div loses NaN")


def test_title_is_that_of_the_smallest_program(tmp_path: Path) -> None:
    found = Evidence(output="0", elements=9, wrong=9, worst=(Element((0,), 4.348, 2.174),), faults=(Fault.NUMBER,))
    facts = TitleFacts(("dropout", "add_", "prod", "interpolate"), ("float16",))
    least = Evidence(output="output", elements=1, wrong=1, worst=(Element((), 2.0, 1.0),), faults=(Fault.NUMBER,))
    with Store.create(tmp_path) as store:
        bug = add_bug(store, Kind.WRONG_VALUE, evidence=found, **{KEY: facts.to_json()})
        finding = store.bug(bug.id).findings[0]
        assert title_of(store.bug(bug.id)).startswith("dropout → add_ → prod → interpolate of float16: ")
        smaller = {"evidence": least.to_json(), KEY: TitleFacts(("dropout", "add_"), ("float32",)).to_json()}
        store.note_smallest(bug.id, finding, {"case": finding.case_id, **smaller})
        assert title_of(store.bug(bug.id)) == "dropout → add_: 1 where 2 is right"
        (view,) = gather_store(store).bugs
        assert view.spelled == ("dropout", "add_")
        assert view.shortest.mismatch and view.shortest.mismatch.places[0].expected == "2.0"
        assert view.mismatch and view.mismatch.places[0].expected != "2.0", "the page has the bug as it was found"


def test_the_name_of_a_bug_tells_what_older_findings_do_not() -> None:
    assert facts_of_name("KeyError in add+mul with gradient of half") == TitleFacts(
        ("add", "mul"), ("half precision",), ("with gradient",)
    )
    assert facts_of_name("program 0123456789ab of float") == TitleFacts()
