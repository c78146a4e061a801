# Directional derivative of a compiled loss by dual numbers.
import torch
import torch.autograd.forward_ad as forward_ad


@torch.compile
def loss(x):
    return (x**3).sum()


with forward_ad.dual_level():
    dual = forward_ad.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.5]))
    value, tangent = forward_ad.unpack_dual(loss(dual))
    print(value, tangent)
