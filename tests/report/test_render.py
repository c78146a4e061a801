"""Scripts in reports run by themselves and show what the program gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from driftline.core.program import Program, SourceBundle, file_digest
from driftline.core.tensors import Array, Arrays
from driftline.diagnose.reduce.values import roughness
from driftline.programs.literals import Literals
from driftline.programs.number_formulas import formulas
from driftline.programs.onnx.text import model_text
from driftline.report.scripts.render import render_script


def run_script(text: str, folder: Path) -> str:
    path = folder / "script.py"
    path.write_text(text)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, env=environment, cwd=folder
    )
    assert done.returncode == 0, done.stderr + text
    return done.stdout


def source(folder: Path, text: str, framework: str = "torch", **files: str) -> Program:
    path = folder / "bundle"
    path.write_bytes(SourceBundle("m.py", "program", {"m.py": text, **files}).dump())
    return Program("source", framework, file_digest(path), path, "m.py:program")


def special(dtype: str) -> Array:
    kind = getattr(ml_dtypes, dtype, None) or np.dtype(dtype)
    values = [0.1, -0.0, float("nan"), 1e-3, 3.0, float("inf"), -float("inf"), 65000.0, 1e-41]
    with np.errstate(all="ignore"):
        return np.array(values).astype(kind).reshape(3, 3)


ARRAYS = [
    *(special(d) for d in ("float32", "float64", "float16", "bfloat16", "float8_e5m2", "complex64")),
    np.random.default_rng(0).standard_normal((9, 11)).astype(np.float32),
    np.random.default_rng(0).standard_normal((30, 11)).astype(np.float32),  # packed
    np.random.default_rng(0).standard_normal(300).astype(ml_dtypes.bfloat16),
    np.array([-(2**63), 2**63 - 1]),
    np.array([2**64 - 1], np.uint64),
    np.array([[True, False]]),
    np.float32(0.3).reshape(()),
    np.zeros((0, 4), np.int8),
    np.full((40, 40), np.float32(0.1)),
    *(
        formula.array((3, 7), dtype, seed=2)
        for dtype in ("float32", "float64", "float16", "bfloat16", "int64", "uint8", "bool")
        for formula in formulas(dtype)
    ),
    np.where(np.arange(400).reshape(20, 20) == 7, np.nan, 1).astype(np.float32),
    np.where(np.arange(400) == 399, -5, 0).astype(np.int16),
]


@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype.name}{list(a.shape)}")
def test_numpy_literals_give_the_same_bits_back(array: Array, brief: bool) -> None:
    assert_same(array, _evaluate(Literals("numpy", 10**6, brief=brief).expression("x", array)))


def test_brief_literals_are_as_people_write_them() -> None:
    written = Literals("numpy", 0, brief=True).expression("x", np.float32([1, -np.inf, np.nan]))
    assert written == "np.float32([1.0, -np.inf, np.nan])"
    assert (
        Literals("torch", 0, brief=True)
        .expression("x", np.float64(np.nan).reshape(()))
        .startswith("torch.tensor(torch.nan,")
    )


def test_numbers_that_a_formula_gives_are_written_as_the_formula() -> None:
    drawn = formulas("float32")[-1].array((64, 64), "float32", seed=3)
    for flavour, before in (("numpy", ""), ("torch", "torch.from_numpy(")):
        literals = Literals(flavour, 10**6, brief=True)
        text = literals.expression("x", drawn)
        assert text == f"{before}np.random.default_rng(3).standard_normal((64, 64), np.float32){')' * bool(before)}"
        assert not literals.packed and literals.needs_numpy is (flavour == "torch")
    changed = drawn.copy()
    changed[63, 63] = np.nextafter(changed[63, 63], np.float32(9))
    assert "unpack(" in Literals("numpy", 10**6).expression("x", changed)
    assert roughness([drawn]) < roughness([changed])


def test_text_among_constants_is_written_out() -> None:
    words = np.array([["a", 'b"'], ["ä", ""]], dtype=object)
    assert (_evaluate(Literals("numpy", 0, brief=True).expression("x", words)) == words).all()


def _evaluate(text: str) -> Array:
    import base64
    import zlib

    from driftline.programs.literals import UNPACK

    names = {"np": np, "ml_dtypes": ml_dtypes, "nan": np.nan, "inf": np.inf, "base64": base64, "zlib": zlib}
    exec(UNPACK, names)
    result: Array = eval(text, names)
    return result


def assert_same(one: Array, other: Array) -> None:
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    bits = [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (one, other)]
    same = bits[0] == bits[1]
    if not same.all():  # NaN has many bit patterns
        assert one.dtype.kind in "fcV"
        np.testing.assert_array_equal(one.astype(np.complex128), other.astype(np.complex128))


def test_torch_literals_give_the_same_bits_back(tmp_path: Path) -> None:
    """In a script, because torch must not be imported here: each tensor is printed as its bytes."""
    literals = Literals("torch", 10**6)
    arrays = [array for array in ARRAYS if array.dtype != np.uint64]
    lines = ["import base64, zlib", "import numpy as np", "import torch", "nan, inf = float('nan'), float('inf')"]
    lines += ["def unpack(text, dtype, shape):"]
    lines += ["    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype).reshape(shape).copy()"]
    for array in arrays:
        lines.append(f"t = {literals.expression('x', array, '')}")
        lines.append(
            "print(str(t.dtype)[6:], list(t.shape), bytes(t.reshape(-1).view(torch.uint8).tolist()).hex())"
            if array.size
            else "print()"
        )
    said = run_script("\n".join(lines), tmp_path).splitlines()
    for array, line in zip(arrays, said, strict=True):
        if array.size:
            dtype, _, rest = line.partition(" ")
            shape, _, data = rest.rpartition(" ")
            assert (dtype, shape) == (array.dtype.name, str(list(array.shape)))
            assert_same(array, np.frombuffer(bytes.fromhex(data), array.dtype).reshape(array.shape))


def test_a_torch_program_runs_eagerly_and_compiled(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nimport torch\nfrom helper import scale\n\n\n"
        "def program():\n    def f(a, flag, b):\n        return (a * b['w'] * scale) if flag else a\n"
        "    return f, (torch.zeros(3, 2).t(), True, {'w': torch.zeros(2, 3)})\n"
    )
    program = source(tmp_path, text, **{"helper.py": "scale = 10\n"})
    arrays = {"a": np.float32([[1, 2, 3], [4, 5, np.inf]]), "b.w": np.float32([[0.1, 1, 1], [1, 1, 2]])}
    script = render_script(program, arrays, "aot_eager")
    said = run_script(script, tmp_path)
    assert said.count("[40., 50., inf]") == 2, said
    assert said.startswith("expected:") and "got:" in said


def test_a_short_program_gets_a_short_script(tmp_path: Path) -> None:
    text = "import torch\n\n\ndef program():\n    return torch.neg, (torch.zeros(2),)\n"
    script = render_script(source(tmp_path, text), {"x": np.float32([1, 2])}, "inductor:freezing=true:dynamic=false")
    assert "torch.compile(function, dynamic=False, options={'freezing': True})" in script
    assert script.count("import torch") == 1
    assert script.count("\n") < 35


def test_values_too_many_to_print_are_named(tmp_path: Path) -> None:
    program, arrays = onnx_program(tmp_path)
    script = render_script(program, arrays, "onnxruntime", room=100)
    assert "STAND-INS, not the true values, for w (300 values)" in script
    assert "expected: [array" in run_script(script, tmp_path)


@pytest.mark.parametrize("target", ["onnxruntime:opt=off", "openvino", pytest.param("tvm", marks=pytest.mark.slow)])
def test_an_onnx_model_runs_on_its_reference_and_its_compiler(tmp_path: Path, target: str) -> None:
    program, arrays = onnx_program(tmp_path)
    script = render_script(program, arrays, target)
    assert "model = parser.parse_model(" in script
    said = run_script(script, tmp_path)
    numbers = said.replace("expected:", "|").replace("got:", "|").split("|")[1:]
    first, second = (np.array(part.split("[[")[1].split("]")[0].replace(",", " ").split(), float) for part in numbers)
    np.testing.assert_allclose(first, second, rtol=1e-5)


def onnx_program(folder: Path) -> tuple[Program, Arrays]:
    import onnx
    from onnx import helper, numpy_helper

    weights = np.random.default_rng(0).standard_normal((3, 100)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["in.0", "w"], ["h"]),
        helper.make_node("LeakyRelu", ["h"], ["l"], alpha=0.3, name="/act/Leaky"),
        helper.make_node("ReduceMax", ["l", "axis"], ["out"], keepdims=1),
    ]
    values = [helper.make_tensor_value_info(n, 1, shape) for n, shape in (("in.0", [2, 3]), ("out", ["N", 1]))]
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([1]), "axis")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8, producer_name="x")
    path = folder / "model.onnx"
    onnx.save(model, str(path))
    program = Program(
        "onnx", "onnx", file_digest(path), path, "model.onnx", operators=("MatMul", "LeakyRelu", "ReduceMax")
    )
    return program, {"in.0": np.float32([[1, 2, 0.5], [-3, 4, 1.25]])}


def test_a_model_without_faithful_text_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, arrays = onnx_program(tmp_path)
    monkeypatch.setattr("driftline.report.scripts.recipe_onnx.model_text", lambda model, detail: ("", []))
    script = render_script(program, arrays, "onnxruntime")
    assert "load_model_from_string" in script
    assert "got:" in run_script(script, tmp_path)


def test_model_text_keeps_what_it_cannot_say_apart(tmp_path: Path) -> None:
    import onnx

    program, _ = onnx_program(tmp_path)
    text, apart = model_text(onnx.load(str(program.path)))
    assert [tensor.name for tensor in apart] == ["w"]
    assert "axis" in text


def test_model_text_is_as_people_write_it() -> None:
    """Short where that reads back to the same model: `1` would be another attribute than 1.0."""
    import onnx
    from onnx import helper

    given = helper.make_tensor_value_info("x", 1, [2, 3])
    made = helper.make_tensor_value_info("y", 1, [2, 3])
    flat = helper.make_node("Flatten", ["x"], ["y"], name="/flat/Flatten", axis=1)
    graph = helper.make_graph([flat], "main", [given], [made])
    opset = [helper.make_opsetid("", 18)]
    text, _ = model_text(helper.make_model(graph, opset_imports=opset, ir_version=8))
    assert text.splitlines()[1] == "main (float[2,3] x) => (float[2,3] y) { y = Flatten<axis = 1>(x) }"
    for attributes in ({"alpha": 1.0}, {"alpha": 0.25}, {"note": "a = B (c)", "sizes": [1, 2]}, {"sizes": [0.5, 1.0]}):
        node = helper.make_node("Anything", ["x"], ["y"], domain="mine", **attributes)
        graph = helper.make_graph([node], "main", [given], [made])
        opsets = [*opset, helper.make_opsetid("mine", 1)]
        text, _ = model_text(helper.make_model(graph, opset_imports=opsets, ir_version=8))
        (again,) = onnx.parser.parse_model(text).graph.node
        assert {a.name: helper.get_attribute_value(a) for a in again.attribute} == {
            a.name: helper.get_attribute_value(a) for a in node.attribute
        }, text
