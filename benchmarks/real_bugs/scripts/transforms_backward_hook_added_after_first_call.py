# A full backward hook is put on a layer after the model has already run once.
import torch

layer = torch.nn.Linear(2, 2, bias=False)
with torch.no_grad():
    layer.weight.copy_(torch.eye(2))


@torch.compile(backend="aot_eager")
def model(x):
    return layer(x) * 3


x = torch.ones(2, requires_grad=True)
model(x).sum().backward()
print(x.grad)
layer.register_full_backward_hook(lambda module, grads_in, grads_out: tuple(g * 10 for g in grads_in))
x.grad = None
model(x).sum().backward()
print(x.grad)
