"""Values kept in fewer bits: how far each is moved, and what a target that declares it may be off by."""

from __future__ import annotations

import numpy as np

from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.tensors import Array, Arrays
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.oracle.judge import Reference, ReferenceSample, TargetTraits, judge
from driftline.oracle.reference import measure_storage
from driftline.oracle.storage import LEVELS, OFF_BY, kept

VALUES = np.linspace(-1.0, 3.0, 101)
QUANTUM = 4.0 / LEVELS


def test_a_tensor_moves_by_up_to_a_quantum_of_its_range() -> None:
    moved = np.abs([kept(VALUES, "byte-values", np.random.default_rng(seed)) - VALUES for seed in range(8)])
    assert QUANTUM / 2 < moved.max() <= OFF_BY / 2 * QUANTUM * 1.001
    assert (moved.max(axis=0) > 0).all()  # the zero of the grid is elsewhere in each run


def test_equal_numbers_move_alike() -> None:
    same = kept(np.full(50, 0.3), "byte-values", np.random.default_rng(1))
    assert len(set(same)) == 1


def test_probabilities_have_a_grid_of_their_own() -> None:
    small = np.full(64, 1 / 64) + np.linspace(0, 1e-4, 64)
    plain = np.abs(kept(small, "byte-values", np.random.default_rng(0)) - small).max()
    softmax = np.abs(kept(small, "byte-values", np.random.default_rng(0), operator="Softmax") - small).max()
    assert plain < 1e-4 < softmax < 1 / 100


def test_only_constants_are_kept_in_float16() -> None:
    rngs = [np.random.default_rng(seed) for seed in range(6)]
    assert all((kept(VALUES, "half-weights", rng) == VALUES).all() for rng in rngs)
    made = [kept(VALUES, "half-weights", rng, constant=True) for rng in rngs]
    halves = VALUES.astype(np.float16).astype(np.float64)
    assert {(one == halves).all() for one in made} == {True, False}  # some conversions leave a constant as it is


def judged(got: Array, native: Array, storage: str = "byte-values", moved: float = QUANTUM) -> Verdict:
    stored = {"byte-values": {"output": np.full(native.shape, moved)} if native.dtype.kind == "f" else {}}
    sample = ReferenceSample(native={"output": native}, exact={"output": native.astype(np.float64)}, stored=stored)
    execution = Execution("t", Outcome.OK, Stage.RUN, outputs=({"output": got},))
    return judge(execution, Reference((sample,)), TargetTraits(False, False, arithmetic=storage))


NATIVE = VALUES.astype(np.float32)


def test_a_few_quanta_are_legal_and_many_are_not() -> None:
    assert judged(NATIVE + np.float32(2 * QUANTUM), NATIVE).judgement is Judgement.PASS
    wrong = NATIVE.copy()
    wrong[7] += np.float32(20 * QUANTUM)
    verdict = judged(wrong, NATIVE)
    assert verdict.kind is Kind.WRONG_VALUE and verdict.evidence.wrong == 1


def test_values_that_are_not_moved_by_fewer_bits_may_still_round() -> None:
    """Weights in float16 change nothing in a program without weights. What is legal in float32 is legal there too."""
    off = NATIVE + np.float32(2e-3)
    sample = ReferenceSample(
        native={"output": NATIVE},
        exact={"output": NATIVE.astype(np.float64)},
        spread={"output": np.full(NATIVE.shape, 1e-4)},
        stored={"half-weights": {"output": np.zeros(NATIVE.shape)}},
    )
    for storage in ("", "half-weights"):
        trait = TargetTraits(False, False, arithmetic=storage)
        for got, expected in ((off, Judgement.PASS), (NATIVE + np.float32(0.1), Judgement.FAIL)):
            execution = Execution("t", Outcome.OK, Stage.RUN, outputs=({"output": got},))
            assert judge(execution, Reference((sample,)), trait).judgement is expected, storage


def test_nan_in_the_place_of_a_number_is_wrong_and_the_other_way_round_is_open() -> None:
    lost = NATIVE.copy()
    lost[3] = np.nan
    assert judged(lost, NATIVE).kind is Kind.WRONG_NONFINITE
    assert judged(NATIVE, lost).judgement is Judgement.PASS


def test_an_index_behind_quanta_is_not_judged() -> None:
    verdict = judged(np.array([1, 2]), np.array([1, 3]))
    assert verdict.judgement is Judgement.INCONCLUSIVE


def test_without_a_measured_movement_nothing_is_concluded() -> None:
    verdict = judged(NATIVE + 1, NATIVE, "half-weights")
    assert verdict.judgement is Judgement.INCONCLUSIVE and "fewer bits" in verdict.reason


class Chosen:
    """A run whose result has as many elements as are larger than a half."""

    def native(self, arrays: Arrays) -> Arrays:
        return self.exact(arrays)

    def exact(self, arrays: Arrays) -> Arrays:
        return {"output": arrays["x"][arrays["x"] > 0.5], "sum": np.sum(arrays["x"], keepdims=True)}

    def stored(self, arrays: Arrays, storage: str, seed: int) -> Arrays:
        return self.exact({"x": kept(arrays["x"], storage, np.random.default_rng(seed))})


def test_a_size_that_follows_from_values_leaves_nothing_to_compare() -> None:
    moved = measure_storage(Chosen(), {"x": np.linspace(0.49, 0.51, 101, dtype=np.float32)}, "byte-values")
    assert moved is not None
    assert moved["output"].shape == (50,) and np.isinf(moved["output"]).all()
    assert np.isfinite(moved["sum"]).all()


def test_another_size_is_wrong_only_where_values_do_not_decide_it() -> None:
    assert judged(NATIVE[1:], NATIVE).kind is Kind.WRONG_SHAPE
    assert judged(NATIVE[:, None], NATIVE, moved=np.inf).kind is Kind.WRONG_SHAPE
    assert judged(NATIVE[1:], NATIVE, moved=np.inf).judgement is Judgement.INCONCLUSIVE
    assert judged(np.array([1]), np.array([1, 3])).judgement is Judgement.INCONCLUSIVE
    assert judged(NATIVE[1:], NATIVE, "", moved=np.inf).kind is Kind.WRONG_SHAPE
