"""A hunt on one compiler: programs that are not from the operator table come to a verdict without a second compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftline.backends import BACKENDS
from driftline.campaign.orders import SuspectOrder
from driftline.campaign.triage.examination import ExaminedSuspect, Triage
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.generate.lone_operators import circumstances
from driftline.generate.table import OPERATORS
from driftline.store import Store

HERE = Path(__file__).parent


def examined(pool: Pool, folder: Path, plugin: str, form: str, request: ProgramRequest) -> ExaminedSuspect:
    """What becomes of a suspect of the only target of a hunt, which is called like its plugin."""
    path = str(HERE / f"{plugin}.py")
    load_plugins([path])
    target = Target(plugin.replace("_", "-"))
    order = SuspectOrder(target, form, request, CheckOptions(plugins=(path,)), witnesses=(target,))
    with Store.create(folder / "store") as store:
        return Triage(Checker(pool, jobs=1), store).examine(order)


def test_an_onnx_idiom(pool: Pool, tmp_path: Path) -> None:
    request = ProgramRequest("idioms", "gather_each", 0, ("random",), seed="0")
    found = examined(pool, tmp_path, "faulty_pairs", "onnx", request)
    assert found.state == "bug", found.reason
    assert [bug.fingerprint.kind for bug, _ in found.bugs] == ["wrong-value"]


@pytest.mark.skipif(not BACKENDS.get("xla").installed().available, reason="JAX is not installed")
def test_a_jax_construct(pool: Pool, tmp_path: Path) -> None:
    request = ProgramRequest("constructs", "scan", 0, ("random",), seed="0")
    found = examined(pool, tmp_path, "shifted_xla", "jax", request)
    assert found.state == "bug", found.reason
    assert [bug.fingerprint.kind for bug, _ in found.bugs] == ["wrong-value"]


@pytest.mark.slow
@pytest.mark.skipif(not BACKENDS.get("xla").installed().available, reason="JAX is not installed")
def test_a_jax_operator_that_fails_under_a_transformation_alone(pool: Pool, tmp_path: Path) -> None:
    tried = circumstances(OPERATORS["exp"], "jnp")
    looped = next(number for number, one in enumerate(tried) if one.special == "scan")
    request = ProgramRequest("alone", "exp", looped, ("random",), seed="0")
    found = examined(pool, tmp_path, "faulty_loops_xla", "jax", request)
    assert found.state == "bug", found.reason
    assert [bug.fingerprint.detail for bug, _ in found.bugs] == ["exp under scan of float"]
