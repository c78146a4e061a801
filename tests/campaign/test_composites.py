"""A Gemm that is wrong because its product is goes by the product: real workers, a compiler with one faulty kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from driftline.campaign.orders import SuspectOrder
from driftline.campaign.triage.composites import Product
from driftline.campaign.triage.examination import Triage
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.diagnose.reduce.graph import ProgramGraph
from driftline.store import Store

PLUGINS = (str(Path(__file__).parent / "faulty_products.py"),)


def names(checker: Checker, folder: Path, target: str, generator: str, arm: str, number: int = 2) -> list[str]:
    load_plugins(PLUGINS)
    request = ProgramRequest(generator, arm, number, ("random",), seed="0")
    order = SuspectOrder(Target(target), "onnx", request, CheckOptions(plugins=PLUGINS))
    with Store.create(folder / f"store {target} {arm}") as store:
        return sorted(bug.fingerprint.detail for bug, _ in Triage(checker, store).examine(order).bugs)


@pytest.mark.parametrize(("generator", "arm"), [("alone", "addmm"), ("idioms", "gemm_sum")])
def test_by_its_product_where_the_rest_follows(checker: Checker, tmp_path: Path, generator: str, arm: str) -> None:
    assert names(checker, tmp_path, "faulty-products", generator, arm) == ["matmul of float"]


def test_by_its_own_name_where_it_is_wrong_besides(checker: Checker, tmp_path: Path) -> None:
    assert names(checker, tmp_path, "faulty-gemm", "alone", "addmm") == ["gemm of float"]


def test_nothing_follows_where_hardly_anything_is_wrong() -> None:
    ones = np.ones((2, 2), np.float32)
    product = Product(ProgramGraph((), (), ()), alpha=2.0, added=ones)
    assert product.explains(ones * 4, ones * 9, ones * 3), "2 * 4 + 1"
    assert not product.explains(ones * 4, ones * 8, ones * 3)
    assert not product.explains(ones, ones * 3, ones * 3)


def test_a_small_number_beside_a_large_one_follows_from_its_own() -> None:
    product = Product(ProgramGraph((), (), ()), alpha=1.0, added=None)
    right, wrong = np.float32([[1e5, 2.0], [np.nan, 3.0]]), np.float32([[1e5, 2.5], [np.nan, 3.0]])
    assert product.explains(wrong, wrong, right)
    assert not product.explains(right, wrong, right)
    assert not product.explains(wrong, np.float32([[1e5, 2.5], [7.0, 3.0]]), right), "a NaN is lost besides"
    assert not product.explains(np.float32([[np.inf, 2.5], [np.nan, 3.0]]), wrong, right)
