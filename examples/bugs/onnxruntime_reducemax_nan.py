"""The largest of some numbers, NaN among them, is NaN.

The vectorised maximum of ONNX Runtime 1.15 drops NaN or keeps it, depending on how many there are and where they lie:
here 7 in the first row, NaN in the second. Since 1.16 a NaN at the front of a row is kept, as here; 1.31.1 still loses
any other: of [1, NaN, 3, 4, 5, 6, 7, 8] it makes 7, and the 8 is lost too. The program is a torch one because PyTorch
propagates NaN; the ONNX specification of ReduceMax is silent about it, and a difference there would be called
unspecified.
Compiler: ONNX Runtime (a CPU kernel). Reported: https://github.com/microsoft/onnxruntime/issues/10514
"""

import torch

NAN = float("nan")


def program():
    rows = torch.tensor([[NAN, NAN, NAN, 7.0], [NAN, 1.0, 2.0, NAN], [1.0, -2.0, 5.0, 0.5]])
    return (lambda x: x.amax(-1)), (rows,)
