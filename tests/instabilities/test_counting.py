"""What is counted as NaN, overflow, underflow and disagreement."""

from __future__ import annotations

import numpy as np

from driftline.instabilities.counting import count
from driftline.instabilities.records import InputRow, ModelRecord, RuntimeRecord


def test_each_sort_of_instability_is_counted_by_itself() -> None:
    exact = {"output": np.array([1.0, 1e39, 1e-50, 2.0, np.nan, np.inf, 3.0, 0.0])}
    got = {"output": np.array([1.0, np.inf, 0.0, np.nan, np.nan, np.inf, 3.3, 0.0], np.float32)}
    found = count(got, exact)
    assert (found.elements, found.nan, found.inf, found.overflow, found.underflow) == (8, 2, 2, 1, 1)
    # NaN for 2.0, and 3.3 for 3.0. Infinity for 1e39 is what a float32 must be, and so is zero for 1e-50.
    assert found.disagreements == 2
    assert abs(found.worst_error - 0.1) < 1e-6
    assert found.classes == ".+.nn+.."


def test_without_a_float64_result_nothing_is_said_about_distance() -> None:
    found = count({"a": np.array([np.nan, 1.0], np.float16), "b": np.array([1, 2])}, None)
    assert (found.elements, found.nan, found.disagreements, found.classes) == (2, 1, 0, "n.")


def test_outputs_are_matched_by_place() -> None:
    found = count({"named_by_the_compiler": np.array([2.0], np.float32)}, {"output": np.array([1.0])})
    assert found.disagreements == 1


def test_a_conflict_is_an_element_about_which_runtimes_disagree() -> None:
    def runtime(name: str, *values: float) -> RuntimeRecord:
        counts = count({"y": np.array(values, np.float32)}, None)
        return RuntimeRecord(name, name, "1", (InputRow(0, "ok", counts, "pass"),))

    record = ModelRecord("m", inputs=("specials",))
    record = record.with_runtime(runtime("one", np.nan, np.inf, 1.0))
    assert not record.conflicts
    record = record.with_runtime(runtime("two", 5.0, np.inf, 1.0)).with_runtime(runtime("three", np.nan, np.inf, 2.0))
    (conflict,) = record.conflicts
    assert (conflict.elements, conflict.nan, conflict.inf, conflict.finite) == (1, ("one", "three"), (), ("two",))
    again = record.with_runtime(runtime("two", np.nan, np.inf, 1.0))  # measured again, it takes its place
    assert len(again.runtimes) == 3
    assert not again.conflicts
