"""Sets of tensors in one file: each is found again at its place, also after another process added to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from driftline.execute.shelf import Shelf, load_from, load_samples, save_samples


def test_each_set_has_its_place(tmp_path: Path) -> None:
    with Shelf(tmp_path / "many#1") as shelf:
        first = shelf.put({"x": np.arange(3.0)})
        second = shelf.put({"x": np.arange(4), "y": np.array(True)})
    with Shelf(tmp_path / "many#1") as again:
        third = again.put({})
    assert load_from(first)["x"].tolist() == [0.0, 1.0, 2.0]
    assert load_from(second)["y"].dtype == bool and load_from(second)["x"].tolist() == [0, 1, 2, 3]
    assert load_from(third) == {}


def test_samples_without_inputs_count(tmp_path: Path) -> None:
    with Shelf(tmp_path / "many") as shelf:
        shelf.put({"a": np.zeros(2)})
        place = shelf.put_samples([{"x": np.ones(1)}, {}])
    assert [sorted(sample) for sample in load_samples(place)] == [["x"], []]


def test_a_file_of_its_own_goes_by_its_path(tmp_path: Path) -> None:
    save_samples(tmp_path / "one", [{"x": np.ones(2)}])
    save_samples(tmp_path / "one", [{"x": np.zeros(2)}])
    assert load_samples(str(tmp_path / "one"))[0]["x"].tolist() == [0.0, 0.0]
