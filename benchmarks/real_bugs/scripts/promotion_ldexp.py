# Scales by powers of two, with mantissa and exponent of different types.
import torch


@torch.compile
def scale(mantissa, exponent):
    return torch.ldexp(mantissa, exponent)


for a, b in ((torch.bool, torch.float16), (torch.int64, torch.bfloat16), (torch.float16, torch.float32)):
    y = scale(torch.ones(3, dtype=a), torch.full((3,), 2, dtype=b))
    print(a, b, "->", y.dtype, y.tolist())
