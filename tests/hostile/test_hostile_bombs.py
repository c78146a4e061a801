"""Small files that claim to be large: each is refused before what it claims is allocated or computed."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftline.checking.checker import OUR_TIMEOUT, Checker, own_time
from driftline.checking.open import open_program
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError, TooLarge
from driftline.core.target import Target
from driftline.core.tensors import DamagedFile, load_tensors
from driftline.core.verdict import Judgement
from driftline.execute.pool import Pool
from driftline.inputs.files import read_arrays
from driftline.inputs.room import require_room_for_value
from driftline.programs import archive_scan
from driftline.programs.archive_scan import require_harmless
from driftline.programs.onnx.model import describe_model, read_model
from hostile.attack import Attack, both_ways, replacing
from typed import typed

onnx = pytest.importorskip("onnx")
MANY = 1 << 21


def onnx_file(
    place: Path, nodes: list[Any], initializers: tuple[Any, ...] = (), functions: tuple[Any, ...] = ()
) -> Path:
    """A small model with an input `x` and an output `y`, both of one element."""
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None]) for name in ("x", "y")]
    graph = onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], list(initializers))
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("own", 1)][: 1 + bool(functions)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions))
    (place / "m.onnx").write_bytes(model.SerializeToString())
    return place / "m.onnx"


def _refused(path: Path) -> bool:
    try:
        describe_model(read_model(path, path.parent)[0])
        return False
    except DriftlineError:
        return True


def _vector(make: Callable[[], tuple[list[Any], tuple[Any, ...]]]) -> Callable[[Path], str]:
    """A vector of which shape inference would note every number."""

    def run(place: Path) -> str:
        noted = []
        infer = onnx.shape_inference.infer_shapes
        path = onnx_file(place, *make())
        assert path.stat().st_size < 200
        with pytest.MonkeyPatch.context() as watched:
            watched.setattr(
                "onnx.shape_inference.infer_shapes",
                lambda model, **how: noted.append(how.get("data_prop", False)) or infer(model, **how),
            )
            _refused(path)
        return f"{MANY} numbers are noted" if any(noted) else ""

    return run


def _filled() -> tuple[list[Any], tuple[Any, ...]]:
    size = onnx.helper.make_tensor("s", onnx.TensorProto.INT64, [1], [MANY])
    make = onnx.helper.make_node
    return [make("ConstantOfShape", ["s"], ["c"]), make("Add", ["x", "c"], ["y"])], (size,)


def _drawn() -> tuple[list[Any], tuple[Any, ...]]:
    make = onnx.helper.make_node
    return [make("RandomNormal", [], ["r"], shape=[MANY]), make("Add", ["x", "r"], ["y"])], ()


def _weights_that_are_not_there(place: Path) -> str:
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[1 << 31])
    path = onnx_file(place, [onnx.helper.make_node("Add", ["x", "w"], ["y"])], (tensor,))
    try:
        read_model(path, place)
    except DriftlineError as error:
        return "" if "cut short" in str(error) else str(error)
    except ValueError as error:
        return f"8 GiB were asked for: {error}"
    return "it was read"


def _functions_that_multiply(place: Path) -> str:
    """Each function calls the one before twice: 2**40 nodes."""
    make, opsets = onnx.helper.make_node, [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("own", 1)]
    functions = [onnx.helper.make_function("own", "f0", ["a"], ["b"], [make("Relu", ["a"], ["b"])], opsets[:1])]
    for number in range(1, 41):
        inner = f"f{number - 1}"
        nodes = [make(inner, ["a"], ["c"], domain="own"), make(inner, ["c"], ["b"], domain="own")]
        functions.append(onnx.helper.make_function("own", f"f{number}", ["a"], ["b"], nodes, opsets))
    path = onnx_file(place, [make("f40", ["x"], ["y"], domain="own")], (), tuple(functions))
    from driftline.programs.onnx.sound import require_sound

    try:
        require_sound(onnx.load(str(path)), "m.onnx")
    except DriftlineError:
        return ""
    return "its functions would be expanded"


def _scanned(path: Path) -> str:
    """How much of an archive is unpacked to look into it."""
    read: list[int] = []
    take = archive_scan._read
    with pytest.MonkeyPatch.context() as watched:
        watched.setattr(archive_scan, "_BIG", 1 << 20)
        watched.setattr(archive_scan, "_read", lambda *about: read.append(about[1].file_size) or take(*about))
        with contextlib.suppress(DriftlineError):
            require_harmless(path)
    return f"{sum(read):,} bytes were unpacked" if sum(read) > 1 << 20 else ""


def _compressed(place: Path) -> str:
    with zipfile.ZipFile(place / "m.pt2", "w", zipfile.ZIP_DEFLATED) as made:
        for number in range(8):
            made.writestr(f"m/data/sample_inputs/{number}.pt", b"N" * 900_000 + b".")
    assert (place / "m.pt2").stat().st_size < 20_000
    return _scanned(place / "m.pt2")


def _compressed_inside(place: Path) -> str:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("archive/data.pkl", b"N" * 900_000 + b".")
    with zipfile.ZipFile(place / "m.pt2", "w") as made:
        for number in range(8):
            made.writestr(f"m/data/sample_inputs/{number}.pt", inner.getvalue())
    return _scanned(place / "m.pt2")


def _computed(make: Callable[[], tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]]) -> Callable[[Path], str]:
    """A model of a few hundred bytes that computes gigabytes."""

    def run(place: Path) -> str:
        path = onnx_file(place, *make())
        assert path.stat().st_size < 600
        described = describe_model(read_model(path, place)[0])
        try:
            if described.largest:
                require_room_for_value(described.largest, "m.onnx", 8 << 30)
        except TooLarge:
            return ""
        return "gigabytes would be computed"

    return run


def _sizes(*sizes: int, name: str = "s") -> Any:
    return onnx.helper.make_tensor(name, onnx.TensorProto.INT64, [len(sizes)], sizes)


def _expanded() -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    return [onnx.helper.make_node("Expand", ["x", "s"], ["y"])], (_sizes(1 << 33),), ()


def _filled_up() -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    make = onnx.helper.make_node
    nodes = [make("ConstantOfShape", ["s"], ["c"]), make("ReduceSum", ["c"], ["r"]), make("Add", ["x", "r"], ["y"])]
    return nodes, (_sizes(1 << 20, 1 << 20),), ()


def _tiled() -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    make = onnx.helper.make_node
    nodes = [make("Expand", ["x", "s"], ["e"]), *(make("Tile", [f, "t"], [t]) for f, t in (("e", "f"), ("f", "y")))]
    return nodes, (_sizes(1 << 10), _sizes(1 << 12, name="t")), ()


def _counted() -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    make, number = onnx.helper.make_node, onnx.helper.make_tensor
    ends = [number(name, onnx.TensorProto.INT64, [], [to]) for name, to in (("a", 0), ("b", 1 << 33), ("d", 1))]
    nodes = [make("Range", ["a", "b", "d"], ["r"]), make("Cast", ["r"], ["f"], to=1), make("Add", ["x", "f"], ["y"])]
    return nodes, tuple(ends), ()


def _random() -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    make = onnx.helper.make_node
    return [make("RandomNormal", [], ["r"], shape=[1 << 33]), make("Add", ["x", "r"], ["y"])], (), ()


def _padded() -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    return [onnx.helper.make_node("Pad", ["x", "s"], ["y"])], (_sizes(0, 1 << 33),), ()


def _constant_node() -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    make = onnx.helper.make_node
    return [make("Constant", [], ["s"], value_ints=[1 << 33]), make("Expand", ["x", "s"], ["y"])], (), ()


def _computed_size() -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    """The size is a product that shape inference has to compute."""
    make = onnx.helper.make_node
    nodes = [make("Mul", ["s", "s"], ["p"]), make("Expand", ["x", "p"], ["y"])]
    return nodes, (_sizes(1 << 17),), ()


def _outer_product() -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    make = onnx.helper.make_node
    nodes = [
        make("Expand", ["x", "s"], ["e"]),
        make("Reshape", ["e", "t"], ["column"]),
        make("Mul", ["e", "column"], ["m"]),
        make("ReduceSum", ["m"], ["y"]),
    ]
    return nodes, (_sizes(1 << 18), _sizes(1 << 18, 1, name="t")), ()


def _in_a_branch() -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    make = onnx.helper.make_node
    out = [onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)]
    nodes = [make("Expand", ["x", "s"], ["e"]), make("ReduceSum", ["e"], ["z"])]
    body = onnx.helper.make_graph(nodes, "b", [], out)
    chosen = onnx.helper.make_tensor("c", onnx.TensorProto.BOOL, [], [True])
    return [make("If", ["c"], ["y"], then_branch=body, else_branch=body)], (_sizes(1 << 33), chosen), ()


def _in_a_function() -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    make, opsets = onnx.helper.make_node, [onnx.helper.make_opsetid("", 18)]
    inner = [make("Expand", ["a", "n"], ["e"]), make("ReduceSum", ["e"], ["b"])]
    function = onnx.helper.make_function("own", "f", ["a", "n"], ["b"], inner, opsets)
    return [make("f", ["x", "s"], ["y"], domain="own")], (_sizes(1 << 33),), (function,)


COMPUTED = {
    "expanded": _expanded, "filled-up": _filled_up, "tiled": _tiled, "counted": _counted, "random": _random,
    "padded": _padded, "constant-node": _constant_node, "computed-size": _computed_size,
    "outer-product": _outer_product, "in-a-branch": _in_a_branch, "in-a-function": _in_a_function,
}  # fmt: skip


def _npz(place: Path) -> str:
    """An archive of inputs that is a thousand times larger unpacked."""
    np.savez_compressed(place / "i.npz", x=np.zeros(1 << 20, np.float32))
    try:
        return str(read_arrays(place / "i.npz", (), 1 << 20)["x"].nbytes)
    except DriftlineError:
        return ""


def no_value(model: Any) -> None:
    return None


any_count = replacing("driftline.programs.onnx.shapes._MOST", 1 << 60)
any_room = replacing("driftline.programs.archive_scan._require_room", lambda archive, deep: None)
ATTACKS = [
    Attack("vector-of-one-number", _vector(_filled), any_count),
    Attack("vector-of-random-numbers", _vector(_drawn), any_count),
    Attack(
        "weights-that-are-not-there",
        _weights_that_are_not_there,
        replacing("driftline.programs.onnx.sound._require_tensor", lambda tensor, name: None),
    ),
    Attack(
        "functions-that-multiply",
        _functions_that_multiply,
        replacing("driftline.programs.onnx.sound.MOST_NODES", 1 << 60),
    ),
    *(
        Attack(f"gigabytes-{name}", _computed(make), replacing("driftline.programs.onnx.model.largest_value", no_value))
        for name, make in COMPUTED.items()
    ),
    Attack("compressed-archive", _compressed, any_room),
    Attack("compressed-archives-inside", _compressed_inside, any_room),
]
test_attack_fails = both_ways(ATTACKS)


def test_a_model_that_computes_gigabytes_is_refused_by_a_command(tmp_path: Path) -> None:
    path = onnx_file(tmp_path, *_expanded())
    done = typed("check", str(path), "--targets", "onnxruntime", "--store", str(tmp_path / "s"))
    assert done.returncode == 2 and "double precision" in done.stderr and "Traceback" not in done.stderr


def test_a_large_value_below_the_limit_is_computed(tmp_path: Path) -> None:
    described = describe_model(read_model(onnx_file(tmp_path, *_expanded()), tmp_path)[0])
    assert described.largest
    require_room_for_value(replace(described.largest, shape=(1 << 29,)), "m.onnx", 8 << 30)


def test_compressed_inputs_are_measured_before_they_are_read(tmp_path: Path) -> None:
    assert _npz(tmp_path) == ""


@pytest.mark.parametrize(
    "header",
    [
        {"x": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}},
        {"x": {"dtype": "F32", "shape": [1 << 62, 4], "data_offsets": [0, 0]}},
        {"x": {"dtype": "F32", "shape": [0] * 5000, "data_offsets": [0, 0]}},
        {"x": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}},
    ],
)
def test_a_safetensors_file_must_hold_what_its_header_says(tmp_path: Path, header: dict[str, Any]) -> None:
    text = json.dumps(header).encode()
    (tmp_path / "t").write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(DamagedFile):
        load_tensors(tmp_path / "t")


@pytest.mark.parametrize("length", [1 << 62, 1 << 40])
def test_the_header_of_a_safetensors_file_is_no_longer_than_the_file(tmp_path: Path, length: int) -> None:
    (tmp_path / "t").write_bytes(struct.pack("<Q", length) + b"{}")
    with pytest.raises(DamagedFile):
        load_tensors(tmp_path / "t")


def test_a_model_nested_without_end_is_one_sentence(tmp_path: Path) -> None:
    """A graph in a node in a graph, deeper than protobuf reads."""
    make = onnx.helper
    graph = make.make_graph([], "g", [], [])
    data = graph.SerializeToString()
    for _ in range(
        300
    ):  # field 6 of an attribute is a graph, field 5 of a node an attribute, field 1 of a graph a node
        for tag in (b"\x32", b"\x2a", b"\x0a"):
            data = tag + _varint(len(data)) + data
    (tmp_path / "m.onnx").write_bytes(b"\x3a" + _varint(len(data)) + data)
    with pytest.raises(DriftlineError, match="not an ONNX model"):
        read_model(tmp_path / "m.onnx", tmp_path)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _hidden_size() -> tuple[list[Any], tuple[Any, ...]]:
    """Expand to a size that shape inference cannot tell, since the size seems to come from the input."""
    make = onnx.helper.make_node
    nodes = [
        make("ReduceSum", ["x"], ["q"], keepdims=1),
        make("Cast", ["q"], ["i"], to=7),
        make("Mul", ["i", "z"], ["a"]),
        make("Add", ["a", "s"], ["p"]),
        make("Expand", ["q", "p"], ["e"]),
        make("ReduceSum", ["e"], ["y"]),
    ]
    return nodes, (_sizes(0, name="z"), _sizes(1 << 28))


def _endless_loop() -> tuple[list[Any], tuple[Any, ...]]:
    make, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [make("Identity", ["c"], ["c2"]), make("Add", ["v", "v"], ["v2"])]
    takes = [value("n", onnx.TensorProto.INT64, []), value("c", onnx.TensorProto.BOOL, [])]
    gives = [value("c2", onnx.TensorProto.BOOL, []), value("v2", onnx.TensorProto.FLOAT, None)]
    body = onnx.helper.make_graph(nodes, "b", [*takes, value("v", onnx.TensorProto.FLOAT, None)], gives)
    trips = onnx.helper.make_tensor("t", onnx.TensorProto.INT64, [], [1 << 40])
    go = onnx.helper.make_tensor("k", onnx.TensorProto.BOOL, [], [True])
    return [make("Loop", ["t", "k", "x"], ["y"], body=body)], (trips, go)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (_hidden_size, "the program's own run takes more than 1 GiB"),
        (_endless_loop, "the program's own run did not end"),
    ],
    ids=["size-from-an-input", "endless-loop"],
)
def test_the_limits_hold_for_the_program_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: Pool, make: Callable[[], Any], told: str
) -> None:
    """The references of a program share one limit, and a program that reaches the limit runs on no target. A busy
    machine may reach the limit of time before that of memory."""
    monkeypatch.setattr("driftline.checking.checker.OUR_TIMEOUT", 6.0)
    path = onnx_file(tmp_path, *make())
    assert path.stat().st_size < 300
    options = CheckOptions(timeout=3.0, memory_limit=1 << 30)
    opened = open_program(str(path), pool, replace(options, timeout=60.0))
    targets = (Target("onnxruntime"), Target.parse("onnxruntime:opt=off"))
    inputs = (Inputs({"x": np.ones(1, np.float32)}, "example"),)
    began = time.monotonic()
    outcome = Checker(pool).check(Case(opened.program, inputs, targets, options))
    assert time.monotonic() - began < 30
    assert [row.target for row in outcome.results] == list(targets)
    for row in outcome.results:
        assert row.verdict.judgement is Judgement.INCONCLUSIVE and told in row.verdict.reason
        assert not row.execution.durations, "a target ran, and nothing that it did could be judged"


def test_all_references_share_twice_the_time_of_a_target() -> None:
    assert own_time(CheckOptions(timeout=300.0)) == 600 and own_time(CheckOptions(timeout=2.0)) == OUR_TIMEOUT
