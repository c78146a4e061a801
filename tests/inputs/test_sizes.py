"""How large inputs are: by name, by shape, by default; and what is refused."""

from __future__ import annotations

import pytest

from driftline.core.errors import DriftlineError
from driftline.core.tensors import ANY_SIZE, TensorSpec
from driftline.inputs.make import InputMaker
from driftline.inputs.sizes import Sizes, choose
from driftline.programs.known import Known

OPEN = (ANY_SIZE, ANY_SIZE)
BERT = (TensorSpec("input_ids", "int64", OPEN), TensorSpec("attention_mask", "int64", OPEN))
NAMES = Known(dims={"input_ids": ("batch", "seq"), "attention_mask": ("batch", "seq")}, limits={"seq": 12})


def test_a_size_that_was_not_given_makes_sense_and_keeps_within_the_tables() -> None:
    chosen = choose(BERT, {}, NAMES, Sizes())
    assert chosen.shapes == {"input_ids": (2, 12), "attention_mask": (2, 12)}
    assert chosen.guessed == ("batch", "seq")


def test_one_name_is_one_size_in_all_inputs_however_it_is_given() -> None:
    for sizes in (Sizes.parse(["batch=3,seq=5"], []), Sizes.parse([], ["input_ids=3x5"])):
        assert set(choose(BERT, {}, NAMES, sizes).shapes.values()) == {(3, 5)}


def test_several_sizes_take_turns() -> None:
    sizes = Sizes.parse(["batch=1/2/3", "seq=4/7"], [])
    assert sizes.count == 3
    shapes = [choose(BERT, {}, NAMES, sizes.turn(i)).shapes["input_ids"] for i in range(sizes.count)]
    assert shapes == [(1, 4), (2, 7), (3, 4)]


@pytest.mark.parametrize(
    "total", ["past_sequence_length + sequence_length", "total_sequence_length", "past_and_new_sequence"]
)
def test_a_mask_over_past_and_present_is_as_long_as_both(total: str) -> None:
    specs = (
        TensorSpec("input_ids", "int64", OPEN),
        TensorSpec("attention_mask", "int64", OPEN),
        TensorSpec("past_key_values.0.key", "float32", (ANY_SIZE, 2, ANY_SIZE, 4)),
    )
    dims = {
        "input_ids": ("batch", "sequence_length"),
        "attention_mask": ("batch", total),
        "past_key_values.0.key": ("batch", "", "past_sequence_length", ""),
    }
    chosen = choose(specs, {}, Known(dims=dims), Sizes.parse(["sequence_length=1,past_sequence_length=7"], []))
    assert chosen.shapes["attention_mask"] == (2, 8)
    assert chosen.shapes["past_key_values.0.key"] == (2, 2, 7, 4)


def test_open_dimensions_of_an_image_are_large() -> None:
    spec = TensorSpec("x", "float32", (ANY_SIZE, 3, ANY_SIZE, ANY_SIZE))
    assert choose((spec,), {}, Known(dims={"x": ("", "", "h", "w")}), Sizes()).shapes["x"] == (2, 3, 64, 64)
    assert choose((spec,), {}, Known(), Sizes()).shapes["x"] == (2, 3, 64, 64)


@pytest.mark.parametrize(
    ("dims", "shapes", "told"),
    [
        ("sek=3", "", "Did you mean 'seq'? There are: batch, seq."),
        ("seq=13", "", "more than the model can take, which is 12"),
        ("seq=x", "", "'x' is not a size"),
        ("seq", "", "is not NAME=SIZE"),
        ("seq=3,seq=4", "", "seq=3/4"),
        ("", "input_id=2x3", "Did you mean 'input_ids'?"),
        ("", "input_ids=2x3x4", "has 3 dimensions, but the program takes input_ids: int64[?, ?]"),
        ("", "input_ids=2x3,attention_mask=2x4", "dimensions of one name have one size"),
        ("seq=5", "input_ids=2x3", "dimensions of one name have one size"),
        ("", "fixed=2x3", "axis 1 is always 4"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(dims: str, shapes: str, told: str) -> None:
    specs = (*BERT, TensorSpec("fixed", "float32", (ANY_SIZE, 4)))
    with pytest.raises(DriftlineError) as refused:
        choose(specs, {}, NAMES, Sizes.parse([dims] if dims else [], [shapes] if shapes else []))
    assert told in str(refused.value)


def test_positions_go_on_after_those_of_the_cache() -> None:
    specs = (
        TensorSpec("position_ids", "int64", (1, 2)),
        TensorSpec("past_key_values.0.key", "float32", (1, 2, 5, 4)),
    )
    arrays = InputMaker(specs, {}, Known(rules={"position_ids": "positions"})).random(0, 0).arrays
    assert arrays["position_ids"].tolist() == [[5, 6]]
