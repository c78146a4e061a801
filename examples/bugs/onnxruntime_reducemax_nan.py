"""The largest of some numbers, NaN among them, is NaN.

The vectorised maximum of ONNX Runtime 1.15 drops NaN or keeps it, depending on how many there are and where they lie.
Fixed in 1.16.
Compiler: ONNX Runtime (a CPU kernel). Reported: https://github.com/microsoft/onnxruntime/issues/10514
"""

import numpy as np
from onnx import parser

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
largest (float[N] x) => (float y) {
    y = ReduceMax <keepdims = 0> (x)
}
"""


def program():
    return parser.parse_model(MODEL), {"x": np.array([np.nan, np.nan, np.nan, 7.0], dtype=np.float32)}
