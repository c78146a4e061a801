# The hidden state is cut off from the graph in place between segments.
import torch


@torch.compile(backend="aot_eager")
def segment(x):
    h = x * 3
    h.detach_()
    return h + 1, h.requires_grad, h.is_leaf


x = torch.ones(2, requires_grad=True)
out, needs, leaf = segment(x)
print(out, out.requires_grad, needs, leaf)
