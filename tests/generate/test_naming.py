"""What small graphs are called: one thing has one name."""

from __future__ import annotations

from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.generate.naming import named, pattern

FLOAT = TensorType("float32", (2, 3))


def chain(*operators: str) -> Graph:
    """Each operator on what the one before it returned."""
    nodes = tuple(Node(name, (number,), (FLOAT,)) for number, name in enumerate(operators))
    return Graph((Leaf("input", FLOAT),), nodes, (len(operators),))


def test_a_number_for_an_argument_makes_no_other_operator() -> None:
    assert pattern(chain("rsub_scalar")) == pattern(chain("sub_scalar")) == "sub(float)"
    assert pattern(chain("rpow_scalar", "relu")) == "relu(pow(float))"
    assert pattern(chain("remainder_scalar")) == "remainder(float)"


def test_what_only_passes_elements_on_is_no_part_of_a_name() -> None:
    assert pattern(chain("flatten", "exp", "transposed_twice", "sum")) == "sum(exp(float))"
    assert pattern(chain("flatten")) == "flatten(float)"
    long = pattern(chain("clone", "flatten", "detach", "view", "exp", "contiguous", "reshape", "sum"))
    assert long == "exp+sum(float)"


def test_operators_of_suites_go_by_the_names_of_the_table() -> None:
    assert (
        named([("nn.functional.leaky_relu", "float32"), ("Softmax", "float16")])
        == "leaky_relu(float) > softmax(float16)"
    )
    assert named([("native_group_norm", "float64")]) == "group_norm(float64)"
    assert named([("addmm:decomposed", "bfloat16")]) == "addmm(bfloat16)"
    assert named([("div:floor_rounding", "float32")]) == "div_floor(float)"
    assert named([("nn.functional.interpolate:bicubic", "uint8")]) == "nn.functional.interpolate:bicubic(uint8)"
    assert named([("Max", "float32")]) == "Max(float)"  # of any number of arguments, and so another one


def test_a_pattern_has_operators_and_dtypes_alone() -> None:
    assert pattern(chain("neg", "relu", "exp")) == "exp(relu(neg(float)))"
    assert pattern(chain("relu")) == "relu(float)"


def test_an_operator_has_one_name_wherever_it_comes_from() -> None:
    assert named([("Erf", "float32")]) == "erf(float)"
    assert named([("nn.functional.group_norm", "float64")]) == "group_norm(float64)"
    assert named([("Gather", "int64"), ("Det", "float32")]) == "Gather(int64) > Det(float)"
