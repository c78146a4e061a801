"""Does the highest score change, and is that more than a tie?"""

from __future__ import annotations

import numpy as np

from driftline.core.tensors import Arrays
from driftline.oracle.effect import effect_of, score_outputs
from driftline.oracle.judge import ReferenceSample


def sample(arrays: Arrays) -> ReferenceSample:
    return ReferenceSample(native=arrays, exact={name: array.astype(np.float64) for name, array in arrays.items()})


def test_which_outputs_are_scores() -> None:
    plane, cube = np.zeros((4, 10), np.float32), np.zeros((2, 5, 10), np.float16)
    assert score_outputs({"hidden": cube, "logits": plane}) == ["logits"]
    assert score_outputs({"output": cube}) == [], "a hidden state has the same shape"
    rows = np.full((3, 4), 0.25, np.float32)
    assert score_outputs({"output": rows}) == ["output"], "probabilities"
    assert score_outputs({"output": np.log(rows)}) == ["output"], "their logarithms"
    assert score_outputs({"output": rows * 2}) == []
    assert score_outputs({"0": cube, "1": plane}) == [], "which of them?"
    others = {"image": np.zeros((1, 3, 8, 8), np.float32), "ids": np.zeros((4, 10), np.int64), "one": plane[:, :1]}
    assert score_outputs(others) == []


def test_changes_ties_and_ulps() -> None:
    right = np.array([[1, 2, 3], [5, 1, 5 + 2**-21], [4, 1, 0], [1, 0, 0]], np.float32)
    got = right.copy()
    got[0] = [1, 3.5, 3]  # another class
    got[1] = [5 + 2**-20, 1, 5]  # a tie within rounding
    got[2, 2] = 2**-19  # no change, and four units in the last place of 4
    found = effect_of([{"logits": got}, {"logits": right}], [sample({"logits": right})] * 2)
    assert found is not None
    assert (found.rows, found.changed, found.ties, found.unit) == (8, 1, 1, "class")
    assert "the top-1 class changes in 1 of 8 rows, and in 1 more where the two best are equal" in str(found)
    quiet = effect_of(
        [{"logits": np.where(got == right, right, right).astype(np.float32)}], [sample({"logits": right})]
    )
    assert str(quiet) == "the top-1 class stays the same in all 4 rows; largest difference 0 ulps"
    last = effect_of([{"logits": got[2:]}], [sample({"logits": right[2:]})])
    assert last is not None and last.ulps == 4


def test_nan_is_a_change() -> None:
    right = np.ones((1, 2, 3), np.float16) * np.arange(3, dtype=np.float16)
    got = right.copy()
    got[0, 0, 0] = np.nan
    found = effect_of([{"scores": got}], [sample({"scores": right})])
    assert found is not None and (found.changed, found.rows) == (1, 2)
    assert str(found) == "the next token changes in 1 of 2 rows; largest difference inf ulps"


def test_nothing_to_compare() -> None:
    assert effect_of([{"x": np.ones(3)}], [sample({"x": np.ones(3)})]) is None
