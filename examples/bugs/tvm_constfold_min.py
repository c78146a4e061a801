"""The elementwise minimum of a constant matrix and a constant number.

The ONNX importer of TVM folds constants with numpy and passes the number where numpy expects an axis: it reduces the
matrix instead of clipping it. Fixed in 0.27.
Compiler: TVM up to 0.26 (constant folding in the importer). Reported: https://github.com/apache/tvm/issues/20117
"""

import numpy as np
from onnx import parser

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
capped (int64[2, 3] x) => (int64[2, 3] y) <int64[2, 3] table = {5, -1, 4, 2, 8, -6}, int64 cap = {0}> {
    small = Min(table, cap)
    y = Add(small, x)
}
"""


def program():
    return parser.parse_model(MODEL), {"x": np.zeros((2, 3), dtype=np.int64)}
