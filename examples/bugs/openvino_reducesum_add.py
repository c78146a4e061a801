"""A weighted sum over the last axis, plus one number per channel.

The CPU plug-in of OpenVINO fuses the addition into the reduction and then adds up wrongly. It takes many channels to
show: 1,536 here. Fixed in 2024.2.
Compiler: OpenVINO (fusion into a reduction). Reported: https://github.com/openvinotoolkit/openvino/issues/23616
"""

import numpy as np
from onnx import numpy_helper, parser

CHANNELS, WIDTH = 1536, 4
MODEL = f"""
<ir_version: 8, opset_import: ["": 18]>
weighted_sum (float[1, {CHANNELS}, {WIDTH}] x) => (float[1, {CHANNELS}] y) <int64[1] last = {{-1}}> {{
    weighted = Mul(x, weights)
    summed = ReduceSum <keepdims = 0> (weighted, last)
    y = Add(summed, offsets)
}}
"""


def program():
    rng = np.random.default_rng(11)
    model = parser.parse_model(MODEL)
    weights = rng.uniform(0.1, 1.0, (CHANNELS, WIDTH)).astype(np.float32)
    offsets = rng.uniform(0.1, 1.0, CHANNELS).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "weights"))
    model.graph.initializer.append(numpy_helper.from_array(offsets, "offsets"))
    return model, {"x": rng.standard_normal((1, CHANNELS, WIDTH)).astype(np.float32)}
