# A ring of time steps: the caller hands over the whole history and the part without the oldest step.
import torch


def advance(history, recent):
    history.add_(100.0)
    return recent[0]


step = torch.compile(advance, backend="aot_eager")

history = torch.arange(20.0).reshape(5, 4)
first = step(history, history[1:])
print("first of the recent steps:", first)
print("history row 1:            ", history[1])
first.zero_()
print("after zeroing what was returned:")
print(history)
