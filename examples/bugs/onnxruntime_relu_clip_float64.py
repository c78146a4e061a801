"""Relu and then Clip, in float64.

ONNX Runtime merges the two into one Clip while it builds the session. The merging handles float32 and float16 only and
throws for float64, so a valid model cannot be loaded. With `opt=off` it loads and is right.
Compiler: ONNX Runtime (the Relu-Clip fusion). Reported: https://github.com/microsoft/onnxruntime/issues/11836
"""

import numpy as np
from onnx import parser

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
squash (double[4] x) => (double[4] y) <double low = {-0.5}, double high = {2.0}> {
    positive = Relu(x)
    y = Clip(positive, low, high)
}
"""


def program():
    return parser.parse_model(MODEL), {"x": np.array([-4.0, 0.25, 1.5, 9.0])}
