"""The largest of some numbers, NaN among them, is NaN.

The vectorised maximum of ONNX Runtime 1.15 drops NaN or keeps it, depending on how many there are and where they lie:
here 7 in the first row, NaN in the second. Fixed in 1.16.
Compiler: ONNX Runtime (a CPU kernel). Reported: https://github.com/microsoft/onnxruntime/issues/10514
"""

import numpy as np
from onnx import parser

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
largest (float[3, 4] x) => (float[3] y) <int64[1] last = {-1}> {
    y = ReduceMax <keepdims = 0> (x, last)
}
"""


def program():
    rows = [[np.nan, np.nan, np.nan, 7.0], [np.nan, 1.0, 2.0, np.nan], [1.0, -2.0, 5.0, 0.5]]
    return parser.parse_model(MODEL), {"x": np.array(rows, dtype=np.float32)}
