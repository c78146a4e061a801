"""Two Reshapes in a row over a tensor without elements; in the second, 0 means "no elements" (`allowzero`).

ONNX Runtime replaces the pair by one Reshape in which 0 has its other meaning, "copy this dimension": the shape is
wrong. Wrong from 1.21 to 1.26.
Compiler: ONNX Runtime (the Reshape fusion). Reported: https://github.com/microsoft/onnxruntime/pull/28349
"""

import numpy as np
from onnx import parser

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
twice (float[0, 8, 3] x) => (float[A, B, C] y)
    <int64[3] first = {4, 6, -1}, int64[3] second = {0, 0, 5}> {
    middle = Reshape(x, first)
    y = Reshape <allowzero = 1> (middle, second)
}
"""


def program():
    return parser.parse_model(MODEL), {"x": np.empty((0, 8, 3), dtype=np.float32)}
