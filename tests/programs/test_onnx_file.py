"""ONNX models whose weights lie in files beside them: big ones stay so all the way, and what is odd is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from driftline.campaign.check.session import check_program
from driftline.campaign.explain.replay import replay
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.files import BIG
from driftline.core.target import parse_targets
from driftline.core.verdict import Judgement
from driftline.execute.pool import Pool
from driftline.programs.onnx.file import load_structure, mapped, serialised
from driftline.store import Store

LARGE = 4200  # a square matrix of this size is just above what is kept in one file


def write_model(path: Path, size: int, *, external: bool = True, location: str = "") -> np.ndarray:
    """`y = x @ w`, with `w` in a data file or in the model itself."""
    weights = np.random.default_rng(0).standard_normal((size, size), np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, size]) for name in "xy"]
    graph = helper.make_graph([node], "main", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    if external:
        onnx.save_model(model, str(path), save_as_external_data=True, location=f"{path.stem}.bin", size_threshold=0)
    else:
        onnx.save_model(model, str(path))
    if location:
        changed = onnx.load(str(path), load_external_data=False)
        changed.graph.initializer[0].external_data[0].value = location
        path.write_bytes(changed.SerializeToString())
    return weights


@pytest.mark.parametrize("external", [True, False])
def test_weights_of_a_big_model_lie_beside_it(pool: Pool, checker: Checker, tmp_path: Path, external: bool) -> None:
    weights = write_model(tmp_path / "big.onnx", LARGE, external=external)
    opened = open_program(str(tmp_path / "big.onnx"), pool, CheckOptions())
    program = opened.program
    assert program.weights >= BIG
    assert program.path.stat().st_size < 10_000
    assert [path.is_file() for path in program.data_paths] == [True]
    for path in tmp_path.glob("big.*"):  # the copy is our own
        path.unlink()
    tensor = next(t for t in load_structure(program.path).graph.initializer if t.name == "w")
    read = mapped(tensor, program.path.parent)
    assert np.array_equal(read, weights)
    assert not read.flags.writeable
    with Store.create(tmp_path / "store") as store:
        targets = parse_targets("onnxruntime,openvino")
        result = check_program(checker, store, opened, targets=targets, options=CheckOptions())
        assert [row.verdict.judgement for row in result.results] == [Judgement.PASS, Judgement.PASS]


def test_the_digest_covers_the_data_file(pool: Pool, tmp_path: Path) -> None:
    write_model(tmp_path / "big.onnx", LARGE)
    first = open_program(str(tmp_path / "big.onnx"), pool, CheckOptions()).program
    with open(tmp_path / "big.bin", "r+b") as file:
        file.seek(BIG)
        file.write(b"\x01\x02\x03\x04")
    second = open_program(str(tmp_path / "big.onnx"), pool, CheckOptions()).program
    assert first.digest != second.digest


def test_a_small_model_becomes_one_file(pool: Pool, tmp_path: Path) -> None:
    weights = write_model(tmp_path / "small.onnx", 8)
    program = open_program(str(tmp_path / "small.onnx"), pool, CheckOptions()).program
    assert not program.data
    kept = onnx.load_model_from_string(serialised(program.path))
    assert np.array_equal(numpy_helper.to_array(kept.graph.initializer[0]), weights)


def test_the_store_keeps_the_data_file_and_replays(pool: Pool, checker: Checker, tmp_path: Path) -> None:
    plugin = tmp_path / "wrong.py"
    plugin.write_text(
        "from driftline.backends import register_backend\n"
        "from driftline.backends.onnxruntime import OnnxRuntime\n\n\n"
        "@register_backend\n"
        "class Doubling(OnnxRuntime):\n"
        "    name = 'doubling'\n"
        "    family = 'onnxruntime'\n\n"
        "    def compile(self, program, options):\n"
        "        run = super().compile(program, {})\n"
        "        return lambda arrays: {name: value * 2 for name, value in run(arrays).items()}\n"
    )
    from driftline.core.plugins import load_plugins

    load_plugins([str(plugin)])
    write_model(tmp_path / "big.onnx", LARGE)
    options = CheckOptions(plugins=(str(plugin),))
    opened = open_program(str(tmp_path / "big.onnx"), pool, options)
    with Store.create(tmp_path / "store") as store:
        result = check_program(checker, store, opened, targets=parse_targets("doubling"), options=options)
        (bug,) = result.bugs.values()
        case = store.load_case(bug.findings[0].case_id)
        assert [path.is_file() for path in case.program.data_paths] == [True]
        assert "still fails" in str(replay(store, bug.id, checker).answer)


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("/etc/passwd", "outside the model's folder"),
        ("../small.bin", "outside the model's folder"),
        ("gone.bin", "missing: gone.bin"),
        ("link.bin", "is a symbolic link"),
        ("short.bin", "is cut short"),
    ],
)
def test_data_files_that_are_refused(pool: Pool, tmp_path: Path, location: str, said: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    write_model(folder / "small.onnx", 8, location=location)
    (folder / "link.bin").symlink_to(folder / "small.bin")
    (folder / "short.bin").write_bytes(b"short")
    with pytest.raises(DriftlineError, match=said):
        open_program(str(folder / "small.onnx"), pool, CheckOptions())


def test_two_places_of_one_tensor_are_refused(pool: Pool, tmp_path: Path) -> None:
    """Otherwise one of them could be checked and the other one read."""
    write_model(tmp_path / "small.onnx", 8)
    model = onnx.load(str(tmp_path / "small.onnx"), load_external_data=False)
    model.graph.initializer[0].external_data.add(key="location", value="../elsewhere.bin")
    (tmp_path / "small.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(DriftlineError, match="two places"):
        open_program(str(tmp_path / "small.onnx"), pool, CheckOptions())
