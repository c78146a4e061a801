# Activations are halved when packed and doubled when unpacked; a counter tells how many went through.
import torch

packed = []


def pack(t):
    packed.append(tuple(t.shape))
    return t * 0.5


def unpack(t):
    return t * 4


@torch.compile(backend="aot_eager", fullgraph=True)
def product(a, b):
    return a * b


a = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([3.0, 4.0], requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    y = product(a, b)
y.sum().backward()
print(packed, a.grad, b.grad)
