# Operators that are not there for booleans and small integers.
import torch
import torch.nn.functional as F

cases = {
    "ceil of bool": (lambda t: torch.ceil(t), torch.tensor([True, False])),
    "round of int8": (lambda t: torch.round(t, decimals=-1), torch.tensor([14, 26], dtype=torch.int8)),
    "glu of int8": (lambda t: F.glu(t), torch.tensor([[1, 2, 3, 4]], dtype=torch.int8)),
}
for name, (function, t) in cases.items():
    try:
        print(name, "->", torch.compile(function)(t))
    except Exception as error:
        print(name, "raised", type(error).__name__)
