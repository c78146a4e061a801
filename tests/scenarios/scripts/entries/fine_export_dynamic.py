import torch
from torch.export import Dim, export


class Scaled(torch.nn.Module):
    def forward(self, x, *, factor=2.0, names=("a",), flip=False):
        torch._check(x.shape[0] < 100)
        y = x.flip(0) if flip else x
        return [y * factor, x.shape[0], x.sum(0)], {name: y.mean() for name in names}


batch = Dim("batch", min=2, max=64)
shapes = {"x": {0: batch}, "factor": None, "names": (None,), "flip": None}
inputs = {"flip": True, "factor": 3.0, "names": ("b",)}
scaled = export(Scaled(), (torch.randn(4, 3),), inputs, dynamic_shapes=shapes).module()
for rows in (4, 7, 64):
    print(scaled(torch.randn(rows, 3), names=("b",), flip=True, factor=3.0)[0][1])
for wrong in (
    lambda: scaled(torch.randn(4, 5), **inputs),
    lambda: scaled(torch.randn(65, 3), **inputs),
    lambda: scaled(torch.randn(4, 3), flip=False, factor=3.0, names=("b",)),
    lambda: scaled(torch.randn(4, 3)),
):
    try:
        print(len(wrong()))
    except Exception as error:
        print("refused", type(error).__name__)
