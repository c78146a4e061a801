import torch


@torch.jit.script
def helper(x, y: int):
    if y > 2:
        raise ValueError("large")
    return x.mul_(y)


@torch.jit.script
def outer(x):
    return helper(x, 1) * 2, x


x = torch.ones(2)
print(helper(x, 2), outer(x)[0], x, helper.graph is not None)
try:
    helper(torch.ones(2), 5)
except Exception:
    print("raised")
print(torch.compile(lambda x: outer(x)[0] + 1, backend="aot_eager")(torch.ones(3)))
