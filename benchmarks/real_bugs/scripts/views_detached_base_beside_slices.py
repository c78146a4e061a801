# Two halves of the features go on to two heads; a detached copy of all of them goes to the log.
import torch


def features(x):
    h = torch.sin(x)
    return h[:4], h[4:], h.detach()


compiled = torch.compile(features)
x = torch.linspace(0, 1, 8, requires_grad=True)
left, right, logged = compiled(x)
print("requires grad:", left.requires_grad, right.requires_grad, logged.requires_grad)
try:
    (left.sum() + 2 * right.sum()).backward()
    print("grad:", x.grad)
except RuntimeError as error:
    print("backward raised:", str(error).splitlines()[0])
