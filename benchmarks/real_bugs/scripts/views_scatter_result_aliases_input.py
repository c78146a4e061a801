# The new state is written back, and the caller gets the value it may go on changing.
import torch


@torch.compile(fullgraph=True)
def update(state, head):
    new = torch.slice_scatter(state, head, 0, 0, 2)
    state.copy_(new)
    return new


state = torch.tensor([1.0, 2.0, 3.0])
new = update(state, torch.tensor([10.0, 20.0]))
print("state:", state, "new:", new)
new.add_(100)
print("state after changing the returned tensor:", state)
