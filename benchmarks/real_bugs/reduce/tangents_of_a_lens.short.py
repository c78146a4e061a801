import torch
import torch.autograd.forward_ad as forward_ad

x = torch.ones(1)
with forward_ad.dual_level():
    y = torch.compile(lambda t: t * 2)(forward_ad.make_dual(x, x))
    print(forward_ad.unpack_dual(y).tangent)
