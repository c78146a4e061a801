"""Finds inputs of an ONNX model that are parameters of its operators, not data: shapes, axes, counts, indices, scales,
limits. Other numbers there would make another program, or an invalid one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftline.core.task import Context, Task
from driftline.programs.onnx.file import load_structure

# By operator: the places of its inputs that are parameters.
_PLACES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys("Reshape Expand Tile Upsample Squeeze Unsqueeze Split SplitToSequence".split(), (1,)),
    **dict.fromkeys("CumSum TopK Trilu MaxRoiPool".split(), (1,)),
    **dict.fromkeys("Gather GatherElements GatherND Scatter ScatterElements ScatterND Compress".split(), (1,)),
    **dict.fromkeys("ReverseSequence SequenceAt SequenceErase CenterCropPad AffineGrid BitShift".split(), (1,)),
    **dict.fromkeys("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss TensorScatter".split(), (1,)),
    **dict.fromkeys(
        "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp"
        " ReduceSumSquare".split(),
        (1,),
    ),
    **dict.fromkeys("ConstantOfShape HannWindow HammingWindow BlackmanWindow If".split(), (0,)),
    **dict.fromkeys("LSTM GRU RNN".split(), (4,)),
    **dict.fromkeys("Clip Dropout DFT Col2Im MaxUnpool QuantizeLinear DequantizeLinear RoiAlign".split(), (1, 2)),
    **dict.fromkeys("ConvInteger MatMulInteger".split(), (2, 3)),
    **dict.fromkeys("QLinearMatMul QLinearConv".split(), (1, 2, 4, 5, 6, 7)),
    "Resize": (1, 2, 3), "Slice": (1, 2, 3, 4), "Pad": (1, 3), "OneHot": (0, 1), "Range": (0, 1, 2), "Loop": (0, 1),
    "NonMaxSuppression": (2, 3, 4), "SequenceInsert": (2,), "STFT": (1, 3), "Where": (0,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
}  # fmt: skip
# Operators that compute sizes: their inputs are parameters if their result is one.
_ARITHMETIC = frozenset(
    "Identity Cast Concat Squeeze Unsqueeze Reshape Flatten Slice Gather Transpose Expand Add Sub Mul Div Neg Abs Floor"
    " Ceil Round Min Max".split()
)


@dataclass(frozen=True)
class ParametersRequest:
    """A request for the parameter inputs of the model at `path`."""

    path: Path


@dataclass(frozen=True)
class ParameterInputs:
    names: tuple[str, ...] = ()


FIND_PARAMETERS = Task("driftline.programs.onnx.parameters:find_parameters", ParametersRequest, ParameterInputs)


@FIND_PARAMETERS.serve
def find_parameters(request: ParametersRequest, context: Context) -> ParameterInputs:
    return ParameterInputs(tuple(sorted(parameter_inputs(load_structure(request.path)))))


def parameter_inputs(model: Any) -> set[str]:
    """Return the graph's inputs that an operator uses as a parameter, directly or after arithmetic on sizes."""
    nodes = list(_nodes(model.graph))
    found = {node.input[place] for node in nodes for place in _PLACES.get(node.op_type, ()) if place < len(node.input)}
    makers = {name: node for node in nodes for name in node.output if node.op_type in _ARITHMETIC}
    waiting = list(found)
    while waiting:
        maker = makers.get(waiting.pop())
        further = set(maker.input) - found if maker else set()
        found |= further
        waiting += further
    return found & {value.name for value in model.graph.input}


def _nodes(graph: Any) -> Iterator[Any]:
    """Yield all nodes, including those of graphs inside nodes, which see the names around them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g,) if attribute.HasField("g") else tuple(attribute.graphs):
                yield from _nodes(inner)
