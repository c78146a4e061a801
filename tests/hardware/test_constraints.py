"""Each constraint on facts written by hand: what it finds, and what it leaves alone."""

from __future__ import annotations

import pytest

from driftline.hardware.constraint import Constraint
from driftline.hardware.constraints.dtype import DtypeConstraint
from driftline.hardware.constraints.layout import LayoutConstraint
from driftline.hardware.constraints.limits import LimitsConstraint, ReductionConstraint
from driftline.hardware.constraints.memory import MemoryConstraint, PeakMemoryConstraint
from driftline.hardware.constraints.operators import OperatorConstraint
from driftline.hardware.constraints.shape import ShapeConstraint
from driftline.hardware.facts import INPUT, OUTPUT, GraphFacts, NodeFacts, TensorFacts
from driftline.hardware.liveness import peak_memory


def tensor(
    *shape: int, dtype: str = "float32", storage: int = 0, formats: tuple[str, ...] = ("contiguous",)
) -> TensorFacts:
    count = 1
    for size in shape:
        count *= size
    return TensorFacts(dtype, shape, (), 4, storage, 4 * count, formats)


def chain(*sizes: int) -> GraphFacts:
    """Each node reads the one before it; every one has a storage of its own."""
    tensors = [tensor(size, storage=number) for number, size in enumerate(sizes)]
    nodes = [NodeFacts("x", INPUT, (), (tensors[0],))]
    nodes += [NodeFacts(f"n{i}", "aten.exp", (tensors[i - 1],), (one,)) for i, one in enumerate(tensors) if i]
    return GraphFacts("graph", (*nodes, NodeFacts("output", OUTPUT, (tensors[-1],))))


def found(constraint: Constraint, node: NodeFacts) -> list[str]:
    return [f"{one.value} | {one.wanted} | {one.fits}" for one in constraint.violations(GraphFacts("graph", (node,)))]


MM = NodeFacts("mm", "aten.mm", (tensor(24, 64), tensor(64, 20)), (tensor(24, 20),), reduced=64)


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        (ShapeConstraint(alignment=4), []),
        (ShapeConstraint(8), ["float32[24, 20] has size 20 in dimension 1 | multiples of 8 | padded to [24, 24]"]),
        (ShapeConstraint(alignment=8, dims=(0,)), []),
        (ShapeConstraint(alignment=8, dims=(-1,), only=("conv*",)), []),
        (DtypeConstraint(allowed_dtypes={"bfloat16", "int8"}), ["float32[24, 20] | bfloat16, int8 | bfloat16"]),
        (MemoryConstraint(1919), ["float32[24, 20] takes 1.875 KiB | at most 1.874 KiB | split into 2 parts"]),
        (MemoryConstraint(max_bytes=1920), []),
        (OperatorConstraint(denied=("mm",)), ["the device has no mm | all operators but mm | "]),
        (OperatorConstraint(allowed=("aten.*",)), []),
        (OperatorConstraint(allowed=("add",)), ["the device does not have it | only add | "]),
        (LimitsConstraint(max_rank=1), ["float32[24, 20] has 2 dimensions | at most 1 | dimensions joined by reshape"]),
        (LimitsConstraint(max_dim=16), ["float32[24, 20] has a size of 24 | at most 16 | split into 2 parts"]),
        (ReductionConstraint(63), ["64 elements go into one element of the result | at most 63 | 2 partial sums"]),
        (ReductionConstraint(max_length=64), []),
        (LayoutConstraint(), []),
    ],
)  # fmt: skip
def test_a_product_of_matrices(constraint: Constraint, expected: list[str]) -> None:
    assert found(constraint, MM) == expected


def test_chosen_operators_are_held_to_it_with_what_they_read() -> None:
    assert len(found(ShapeConstraint(alignment=32, only=("mm",)), MM)) == 3


def test_a_view_may_have_any_layout_and_what_reads_it_may_not() -> None:
    turned = tensor(4, 8, storage=1, formats=())
    view = NodeFacts("t", "aten.t", (tensor(8, 4, storage=1),), (turned,))
    read = NodeFacts("exp", "aten.exp", (turned,), (tensor(4, 8, storage=2),))
    assert found(LayoutConstraint(), view) == []
    assert len(found(LayoutConstraint(), read)) == 1


def test_peak_memory_frees_what_nothing_reads_any_more() -> None:
    # The input stays; of the others two are there at a time: 400 + 4 * (30 + 20), at the last node.
    graph = chain(100, 10, 30, 20)
    assert peak_memory(graph).nbytes == 400 + 200
    assert peak_memory(graph, inputs=False).nbytes == 200
    (violation,) = PeakMemoryConstraint(max_bytes=599).violations(graph)
    assert violation.node == "n3"
    assert "600 B are live at once in 3 tensors (largest: x float32[100] 400 B" in violation.value
    assert not list(PeakMemoryConstraint(max_bytes=600).violations(graph))


def test_a_view_takes_no_memory_and_keeps_its_base() -> None:
    base, view, end = tensor(10, storage=1), tensor(5, 2, storage=1), tensor(10, storage=2)
    given = tensor(1, storage=0)
    nodes = (
        NodeFacts("x", INPUT, (), (given,)),
        NodeFacts("base", "aten.expand_copy", (given,), (base,)),
        NodeFacts("view", "aten.view", (base,), (view,)),
        NodeFacts("end", "aten.exp", (view,), (end,)),
        NodeFacts("output", OUTPUT, (end,)),
    )
    assert peak_memory(GraphFacts("graph", nodes)).nbytes == 4 + 40 + 40
