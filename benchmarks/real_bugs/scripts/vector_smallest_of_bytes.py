# Extremes of quantised values that are all positive, or all negative.
import torch

VALUES = [5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80] * 4


@torch.compile
def extremes(q):
    return q.amin(), q.amax(), q.argmin(), q.argmax()


for t in (
    torch.tensor(VALUES, dtype=torch.uint8),
    torch.tensor(VALUES, dtype=torch.int8),
    -torch.tensor(VALUES, dtype=torch.int8),
):
    print(t.dtype, [v.item() for v in extremes(t)])
