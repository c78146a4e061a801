"""The magnitude of 64-bit integers that do not fit into 32 bits.

The CPU plug-in of OpenVINO computes int64 as int32: large values come back clamped or as zero, without a word.
Compiler: OpenVINO. Reported: https://github.com/openvinotoolkit/openvino/issues/35890
"""

import numpy as np
from onnx import parser

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
magnitude (int64[N] x) => (int64[N] y) {
    y = Abs(x)
}
"""


def program():
    return parser.parse_model(MODEL), {"x": np.array([-3, 2**40, -(2**52), 11], dtype=np.int64)}
