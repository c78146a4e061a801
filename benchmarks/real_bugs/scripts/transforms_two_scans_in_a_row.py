# Two linear recurrences, the second over the output of the first, trained through.
import torch
from torch._higher_order_ops.scan import scan


def recurrence(decay, shift, xs):
    def step(h, x):
        new = torch.tanh(decay) * h + x * shift
        return new, new.clone()

    return scan(step, torch.zeros(xs.shape[1:]), xs, dim=0)[1]


@torch.compile
def model(d1, s1, d2, s2, xs):
    return recurrence(d2, s2, recurrence(d1, s1, xs)).square().sum()


parameters = [torch.full((3,), v, requires_grad=True) for v in (0.5, 1.0, 0.3, 2.0)]
loss = model(*parameters, torch.ones(4, 2, 3))
loss.backward()
print(round(loss.item(), 3))
for p in parameters:
    print([round(v, 3) for v in p.grad.tolist()])
