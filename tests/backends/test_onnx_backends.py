"""The compilers that take ONNX, each on small models: names and shapes of every kind, dtypes, and what is a rejection.

A compiler that is not installed is skipped. Nearly everything here runs in this process: the models are ones that work,
or that the compiler refuses in good order.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftline.backends import BACKENDS, resolve
from driftline.backends.base import bare_call
from driftline.backends.onnxruntime import _from_ort
from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.program import Program, SourceBundle
from driftline.core.target import Target
from driftline.core.tensors import TensorSpec, numpy_dtype
from driftline.programs.opened import OpenedProgram

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

COMPILERS = ("onnx-reference", "onnxruntime", "onnxscript", "openvino", "tvm", "iree")
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def value(name: str, shape: list[int | str], dtype: str = "float32") -> Any:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: dict[str, Any] | None = None) -> Any:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "a graph", inputs, outputs, tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def execute(name: str, made: Any, arrays: dict[str, Any], **options: str) -> dict[str, Any]:
    backend = BACKENDS.get(name)
    if not backend.installed().available:
        pytest.skip(f"{name} is not installed")
    backend.warm()
    constants = {tensor.name for tensor in made.graph.initializer}
    specs = [TensorSpec(v.name, "", ()) for v in made.graph.input if v.name not in constants]
    outputs = tuple(v.name for v in made.graph.output)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(made.SerializeToString())
        program = Program("onnx", "onnx", "", path, "model", tuple(specs), outputs)
        return backend.compile(OpenedProgram(program, example=arrays), options)(arrays)


def compiled(name: str, made: Any, arrays: dict[str, Any], folder: Path) -> Any:
    backend = BACKENDS.get(name)
    if not backend.installed().available:
        pytest.skip(f"{name} is not installed")
    backend.warm()
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    specs = tuple(TensorSpec(v.name, "", ()) for v in made.graph.input)
    program = Program("onnx", "onnx", "", path, "model", specs, tuple(v.name for v in made.graph.output))
    return backend.compile(OpenedProgram(program, example=arrays), {})


def results(found: Any) -> list[Any]:
    """What a bare call gives is the compiler's own; some of it is no numpy array."""
    found = found.get_outputs() if hasattr(found, "get_outputs") else found
    found = list(found.values()) if hasattr(found, "values") else found if isinstance(found, (list, tuple)) else [found]
    if type(found[0]).__name__ == "OrtValue":  # whose own numpy() knows no bfloat16
        return [_from_ort(one) for one in found]
    return [one.numpy() if hasattr(one, "numpy") else one for one in found]


def bits(array: Any) -> Any:
    return np.asarray(array).view(np.uint16) if np.asarray(array).itemsize == 2 else np.asarray(array)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16"])
@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "tvm", "iree"])
def test_a_call_to_be_timed_has_its_inputs_in_place_and_gives_the_same(name: str, dtype: str, tmp_path: Path) -> None:
    """Again and again, long after the arrays are gone; arrays that are changed later do not change it."""
    given = np.arange(600).reshape(20, 30).astype(numpy_dtype(dtype))
    where = helper.np_dtype_to_tensor_dtype(given.dtype)
    x = helper.make_tensor_value_info("x", where, [30, 20])
    y = helper.make_tensor_value_info("y", where, [60, 20])
    made = model([helper.make_node("Concat", ["x", "x"], ["y"], axis=0)], [x], [y])
    call = compiled(name, made, {"x": given.T}, tmp_path)
    expected = bits(call({"x": given.T})["y"])
    bare = bare_call(call, {"x": given.T.copy(order="F")})
    for _ in range(3):
        _ = [np.full((30, 20), 7, given.dtype) for _ in range(50)]  # what was let go of is written over
        (found,) = results(bare())
        assert np.array_equal(bits(found), expected)


def rejects(name: str, made: Any, arrays: dict[str, Any], **options: str) -> bool:
    """Whether the error of a failing model is a rejection."""
    with pytest.raises(Exception) as raised:  # its kind is the compiler's business
        execute(name, made, arrays, **options)
    return BACKENDS.get(name).is_rejection(raised.value)


def neg(x: str = "x", y: str = "y") -> Any:
    return helper.make_node("Neg", [x], [y])


SHAPES = {
    "no inputs": (model([neg("c")], [], [value("y", [3])], {"c": X[0]}), {}, {"y": -X[0]}),
    "zero-dimensional": (model([neg()], [value("x", [])], [value("y", [])]), {"x": X[0, 0]}, {"y": -X[0, 0]}),
    "empty": (model([neg()], [value("x", [0, 3])], [value("y", [0, 3])]), {"x": X[:0]}, {"y": -X[:0]}),
    "open dimension": (model([neg()], [value("x", ["n", 3])], [value("y", ["n", 3])]), {"x": X}, {"y": -X}),
    "not contiguous": (model([neg()], [value("x", [3, 2])], [value("y", [3, 2])]), {"x": X.T}, {"y": -X.T}),
    "unused input": (
        model([neg("b")], [value("a", [2]), value("b", [2, 3])], [value("y", [2, 3])]),
        {"a": X[0, :2], "b": X},
        {"y": -X},
    ),
    "outputs out of order, and a shape": (
        model(
            [neg(), helper.make_node("Shape", ["x"], ["s"])],
            [value("x", [2, 3])],
            [value("s", [2], "int64"), value("y", [2, 3])],
        ),
        {"x": X},
        {"s": np.array([2, 3]), "y": -X},
    ),
    "input returned": (
        model([helper.make_node("Identity", ["x"], ["y"])], [value("x", [2, 3])], [value("y", [2, 3])]),
        {"x": X},
        {"y": X},
    ),
    "input is an output": (
        model([neg()], [value("x", [2, 3])], [value("x", [2, 3]), value("y", [2, 3])]),
        {"x": X},
        {"x": X, "y": -X},
    ),
    "names of any kind": (
        model([neg("x.1/a:0", "y-1 b")], [value("x.1/a:0", [2, 3])], [value("y-1 b", [2, 3])]),
        {"x.1/a:0": X},
        {"y-1 b": -X},
    ),
    "initialiser among the inputs": (
        model(
            [helper.make_node("Add", ["x", "w"], ["y"])],
            [value("x", [2, 3]), value("w", [3])],
            [value("y", [2, 3])],
            {"w": X[0]},
        ),
        {"x": X},
        {"y": X + X[0]},
    ),
}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("kind", SHAPES)
def test_shapes_and_names(compiler: str, kind: str) -> None:
    made, arrays, expected = SHAPES[kind]
    got = execute(compiler, made, {name: np.asarray(array) for name, array in arrays.items()})
    assert list(got) == list(expected)
    for name, array in expected.items():
        array = np.asarray(array)
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(got[name], array)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "uint8", "uint16", "int64"])
def test_dtypes_are_kept(compiler: str, dtype: str) -> None:
    x = np.abs(X).astype(dtype)
    made = model([helper.make_node("Add", ["x", "x"], ["y"])], [value("x", [2, 3], dtype)], [value("y", [2, 3], dtype)])
    got = execute(compiler, made, {"x": x})["y"]
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, x + x)


@pytest.mark.parametrize("compiler", ["tvm", "iree"])
def test_float64_is_not_demoted(compiler: str) -> None:
    x = np.array([[1 + 2.0**-40, 1.0], [0.0, 1.0]])
    made = model(
        [helper.make_node("MatMul", ["x", "x"], ["y"])],
        [value("x", [2, 2], "float64")],
        [value("y", [2, 2], "float64")],
    )
    np.testing.assert_array_equal(execute(compiler, made, {"x": x})["y"], x @ x)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_bfloat16_passes_through(compiler: str) -> None:
    import ml_dtypes

    x = X.astype(ml_dtypes.bfloat16)
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Neg", ["f"], ["n"]),
        helper.make_node("Cast", ["n"], ["y"], to=TensorProto.BFLOAT16),
    ]
    small = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [2, 3]) for name in ("x", "y")]
    got = execute(compiler, model(nodes, small[:1], small[1:]), {"x": x})["y"]
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got.astype(np.float32), -X)


@pytest.mark.parametrize("target", ["tvm:opt=0", "iree:opt=O0", "onnxruntime:opt=off"])
def test_without_optimisation(target: str) -> None:
    parsed = Target.parse(target)
    resolve(parsed)
    made = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [2, 3])], [value("y", [2, 2])], {"w": X.T}
    )
    np.testing.assert_array_equal(execute(parsed.backend, made, {"x": X}, **dict(parsed.options))["y"], X @ X.T)


def test_openvino_computes_in_float32() -> None:
    x = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    made = model([helper.make_node("MatMul", ["x", "x"], ["y"])], [value("x", [64, 64])], [value("y", [64, 64])])
    exact = x.astype(np.float64) @ x
    assert np.abs(execute("openvino", made, {"x": x})["y"] - exact).max() < 1e-4


def test_openvino_loses_the_name_of_an_input() -> None:
    """What came in would not be known by its name: that is said, instead of an error of our own."""
    dropped = model(
        [helper.make_node("Dropout", ["x", "ratio"], ["y"])],
        [value("x", [2, 3]), value("ratio", [])],
        [value("y", [2, 3])],
    )
    assert rejects("openvino", dropped, {"x": X, "ratio": np.array(0.1, np.float32)})
    unread = model([helper.make_node("Neg", ["x"], ["y"])], [value("x", [2, 3]), value("z", [])], [value("y", [2, 3])])
    np.testing.assert_array_equal(execute("openvino", unread, {"x": X, "z": np.array(0.1, np.float32)})["y"], -X)


DET = model([helper.make_node("Det", ["x"], ["y"])], [value("x", [3, 3])], [value("y", [])])
STFT = model(
    [helper.make_node("STFT", ["x", "step", "window"], ["y"])],
    [value("x", [1, 16, 1]), value("step", [], "int64"), value("window", [8])],
    [value("y", [1, 3, 5, 2])],
)
STFT_ARRAYS = {"x": np.zeros((1, 16, 1), np.float32), "step": np.array(4), "window": np.ones(8, np.float32)}


@pytest.mark.parametrize("compiler", ["openvino", "tvm"])
def test_a_missing_operator_is_a_rejection(compiler: str) -> None:
    assert rejects(compiler, STFT, STFT_ARRAYS)
    if compiler == "openvino":
        assert rejects(compiler, DET, {"x": np.eye(3, dtype=np.float32)})
        # On Arm, of a reduction of a scalar, the plug-in's file and line before it.
        assert BACKENDS.get(compiler).is_rejection(RuntimeError("70:\nSupported Reduce executor is not found"))


@pytest.mark.parametrize("missing", ["acos", "asin"])
def test_iree_names_the_function_that_its_linker_misses(missing: str, checker: Checker) -> None:
    """Only the linker says it, in the log of the worker."""
    if not BACKENDS.get("iree").installed().available:
        pytest.skip("iree is not installed")
    text = f'''
import numpy as np
from onnx import parser

def program():
    text = """<ir_version: 8, opset_import: ["": 18]>
    main (double[4] x) => (double[4] y) {{ y = {missing.title()}(x) }}"""
    return parser.parse_model(text), {{"x": np.full(4, 0.5)}}
'''
    bundle = SourceBundle("p.py", "program", {"p.py": text})
    opened = open_source(bundle, checker.pool, CheckOptions())
    case = Case(opened.program, (Inputs(opened.example, "example"),), (Target.parse("iree"),), CheckOptions())
    (result,) = checker.check(case).results
    assert result.verdict.kind == "error"
    assert f"undefined symbol: {missing}" in result.verdict.reason
    assert result.verdict.evidence.stage == "COMPILE" and missing in result.verdict.evidence.message


def test_iree_says_what_it_cannot_lower() -> None:
    small = helper.make_tensor_value_info("y", TensorProto.FLOAT8E5M2, [2, 3])
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=small.type.tensor_type.elem_type)], "g",
                              [value("x", [2, 3])], [small])  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    assert rejects("iree", made, {"x": X})


def test_onnxruntime_rejects_a_missing_kernel_and_a_newer_format() -> None:
    import ml_dtypes

    small = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [2, 3]) for name in ("x", "y")]
    add = model([helper.make_node("Add", ["x", "x"], ["y"])], small[:1], small[1:])
    assert rejects("onnxruntime", add, {"x": X.astype(ml_dtypes.bfloat16)})
    newer = model([neg()], [value("x", [2, 3])], [value("y", [2, 3])])
    newer.ir_version = 99
    assert rejects("onnxruntime", newer, {"x": X})


RELU_CLIP = model(
    [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Clip", ["r", "low", "high"], ["y"])],
    [value("x", [2, 3], "float64")],
    [value("y", [2, 3], "float64")],
    {"low": np.float64(0), "high": np.float64(2)},
)


def test_an_optimiser_that_throws_is_not_a_rejection_and_can_be_left_out() -> None:
    x = X.astype(np.float64)
    assert not rejects("onnxruntime", RELU_CLIP, {"x": x})
    got = execute("onnxruntime", RELU_CLIP, {"x": x}, disable="FuseReluClip")
    np.testing.assert_array_equal(got["y"], x.clip(0, 2))


def test_unknown_optimisers_are_named() -> None:
    with pytest.raises(DriftlineError, match=r"no optimiser 'FuseReluClp'.* Did you mean 'FuseReluClip'"):
        resolve(Target.parse("onnxruntime:disable=ConstantFolding+FuseReluClp"))
    resolve(Target.parse("onnxruntime:disable=ConstantFolding+FuseReluClip"))


def test_tensorrt_says_why_it_is_not_here() -> None:
    backend = BACKENDS.get("tensorrt")
    present = backend.installed()
    if present.available:
        pytest.skip("TensorRT is installed")
    assert "NVIDIA" in present.reason and "stub" in present.reason
    assert "pip install tensorrt" in backend.install_command and "NVIDIA" in backend.install_command


def test_dynamo_openvino_is_asked_for_float32() -> None:
    if "dynamo:openvino" not in BACKENDS.names():
        pytest.skip("openvino is not installed")
    backend = BACKENDS.get("dynamo:openvino")
    assert backend._needs.options["config"]["INFERENCE_PRECISION_HINT"] == "f32"  # type: ignore[attr-defined]
    assert not backend.gradients
