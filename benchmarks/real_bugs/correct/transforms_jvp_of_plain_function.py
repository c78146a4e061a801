# Directional derivative of ordinary operators.
import torch


@torch.compile
def directional(x, v):
    return torch.func.jvp(lambda t: t.sin() * t, (x,), (v,))


value, tangent = directional(torch.tensor([0.0, 1.0]), torch.ones(2))
print([round(v, 4) for v in value.tolist()], [round(v, 4) for v in tangent.tolist()])
