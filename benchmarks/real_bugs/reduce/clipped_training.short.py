import torch

layer = torch.nn.Identity()
f = torch.compile(lambda x: layer(x) * 1, backend="aot_eager")
x = torch.ones(1, requires_grad=True)
f(x)
layer.register_full_backward_hook(lambda module, grads, out: (grads[0] * 5,))
f(x).backward()
print(x.grad)
