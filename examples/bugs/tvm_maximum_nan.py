"""The larger of NaN and a number is NaN, on whichever side it stands.

TVM compiles a maximum to an x86 instruction that returns its second operand when one is NaN: NaN on the left is lost.
Compiler: TVM (LLVM code generation). Reported: https://github.com/apache/tvm/issues/19579
"""

import numpy as np
from onnx import parser

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
larger (float[4] left, float[4] right) => (float[4] y) {
    y = Max(left, right)
}
"""


def program():
    left = np.array([np.nan, 2.0, -1.0, np.nan], dtype=np.float32)
    right = np.array([5.0, np.nan, 3.0, np.nan], dtype=np.float32)
    return parser.parse_model(MODEL), {"left": left, "right": right}
