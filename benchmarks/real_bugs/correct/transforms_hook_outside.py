# A hook on the input, set before the compiled call.
import torch


@torch.compile
def model(x):
    return (x * 3).sum()


x = torch.ones(2, requires_grad=True)
x.register_hook(lambda grad: grad * 10)
model(x).backward()
print(x.grad)
