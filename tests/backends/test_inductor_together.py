"""Programs that Inductor compiles as one graph compute what each does in eager, with gradients and at all sizes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from driftline.backends._torch import TorchRunner
from driftline.backends.base import Blamed
from driftline.backends.inductor import Inductor
from driftline.core.program import Program
from driftline.core.tensors import Arrays
from driftline.programs.live import LiveProgram
from driftline.programs.opened import OpenedProgram


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """As in a worker: its rules are known before anything is compiled. Later tests in this process rely on it."""
    Inductor().warm()


def opened(function: Any, *example: torch.Tensor, grad: bool = False, seed: int = 0) -> OpenedProgram:
    program = Program("source", "torch", "", None, "test")  # type: ignore[arg-type]
    live = LiveProgram.bind("torch", function, example)
    return OpenedProgram.of_live(program, live, example={}, grad=grad, seed=seed)


def normal(*shape: int) -> Arrays:
    return {"x": np.random.default_rng(0).normal(size=shape).astype(np.float32)}


def compare(programs: list[OpenedProgram], samples: list[list[Arrays]]) -> None:
    compiled = Inductor().compile_together(programs, list(zip(*samples, strict=True)), {})
    assert compiled
    for arrays in samples:
        for program, own, outputs in zip(programs, arrays, compiled(arrays), strict=True):
            expected = TorchRunner(program, program.live.function)(own)
            assert outputs.keys() == expected.keys()
            for name, array in expected.items():
                np.testing.assert_allclose(outputs[name], array, rtol=1e-5, atol=1e-5)


def test_gradients_do_not_mix() -> None:
    linear = torch.nn.Linear(4, 3)
    programs = [
        opened(lambda x: x.sin() * 2, torch.ones(4), grad=True, seed=1),
        opened(linear, torch.ones(2, 4), grad=True, seed=2),
        opened(lambda x: (x > 0).sum(), torch.ones(5), grad=True),  # nothing to differentiate
    ]
    inputs = [normal(4), {"input": normal(2, 4)["x"]}, normal(5)]
    compare(programs, [inputs, inputs])


def test_each_has_its_own_sizes() -> None:
    programs = [opened(lambda x: x.cumsum(0), torch.ones(6, 2)), opened(lambda x: x.softmax(-1), torch.ones(3, 7))]
    torch._dynamo.utils.counters.clear()
    compare(programs, [[normal(6, 2), normal(3, 7)], [normal(9, 2), normal(3, 11)]])
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1  # one compilation for both


def test_who_breaks_the_graph_is_told(tmp_path: Path) -> None:
    """The others need not be compiled one by one, nor searched for it."""
    bodies = ["return x + 1", "return x.sin() if x.sum().item() > 0 else x", "return x.cumsum(0)"]
    functions = []
    for number, body in enumerate(bodies):
        file = tmp_path / f"program{number}.py"
        file.write_text(f"def model(x):\n    {body}\n")
        names: dict[str, Any] = {}
        exec(compile(file.read_text(), str(file), "exec"), names)
        functions.append(names["model"])
    programs = [opened(function, torch.ones(4)) for function in functions]
    compiled = Inductor().compile_together(programs, [[normal(4)]] * 3, {})
    assert compiled
    with pytest.raises(Blamed) as raised:
        compiled([normal(4)] * 3)
    assert raised.value.programs == {1}
    compare([programs[0], programs[2]], [[normal(4)] * 2])


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with torch._inductor.config.patch(force_disable_caches=True):
        yield tmp_path


def test_calls_into_libraries_do_not_cut_kernels_off(empty_cache: Path) -> None:
    """Four programs, each loops, a product and loops: two files, not five, and the products between them."""
    programs = [
        opened(lambda x, k=number: (torch.mm(x.sin(), x.cos()) + k).exp(), torch.ones(3 + number, 3 + number))
        for number in range(4)
    ]
    compare(programs, [[normal(3 + number, 3 + number) for number in range(4)]])
    assert len(list(empty_cache.rglob("*.main.cpp"))) == 2
