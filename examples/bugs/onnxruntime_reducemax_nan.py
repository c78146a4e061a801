"""The largest of some numbers, NaN among them, is NaN.

The vectorised maximum of ONNX Runtime loses NaN, depending on how many there are and where they lie. 1.15 makes 7 of
the first of the short rows. Since 1.16 a NaN at the front of a row is kept, and any other is still lost: 1.31.1 makes 7
of the row of eight, where the 8 is lost too. The program is a torch one because PyTorch propagates NaN; the ONNX
specification of ReduceMax is silent about it, and a difference there would be called unspecified.
Compiler: ONNX Runtime (a CPU kernel). Reported: https://github.com/microsoft/onnxruntime/issues/10514
"""

import torch

NAN = float("nan")


def program():
    short = torch.tensor([[NAN, NAN, NAN, 7.0], [NAN, 1.0, 2.0, NAN], [1.0, -2.0, 5.0, 0.5]])
    eight = torch.tensor([1.0, NAN, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    return (lambda short, eight: (short.amax(-1), eight.amax(-1))), (short, eight)
