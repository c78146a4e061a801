"""The negative of infinity, in float64.

The CPU plug-in of OpenVINO converts float64 to float32 and clamps on the way: infinities come back as the largest
float32.
Compiler: OpenVINO. Reported: https://github.com/openvinotoolkit/openvino/issues/37968
"""

import numpy as np
from onnx import parser

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
negate (double[4] x) => (double[4] y) {
    y = Neg(x)
}
"""


def program():
    return parser.parse_model(MODEL), {"x": np.array([2.5, np.inf, -np.inf, np.nan])}
