# Keeps the gradient of a hidden activation to look at it.
import torch


@torch.compile(backend="aot_eager")
def net(x):
    hidden = x * 2
    hidden.retain_grad()
    return (hidden**2).sum(), hidden


x = torch.tensor([1.0, 3.0], requires_grad=True)
loss, hidden = net(x)
loss.backward()
print(x.grad, hidden.grad)
