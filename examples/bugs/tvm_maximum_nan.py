"""The larger of NaN and a number is NaN, on whichever side it stands: so torch.maximum is specified.

TVM compiles a maximum to an x86 instruction that returns its second operand when one is NaN: NaN on the left is lost.
(The ONNX operator Max, taken by itself, is silent about NaN: there the difference is called unspecified.)
Compiler: TVM (LLVM code generation). Reported: https://github.com/apache/tvm/issues/19579
"""

import torch

NAN = float("nan")


def program():
    return torch.maximum, (torch.tensor([NAN, 2.0, -1.0, NAN]), torch.tensor([5.0, NAN, 3.0, NAN]))
