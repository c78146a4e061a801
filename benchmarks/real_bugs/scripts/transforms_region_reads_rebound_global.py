# A region that is compiled once and used several times; what it reads is replaced between uses.
import torch


class State:
    def __init__(self, hidden):
        self.hidden = hidden


state = State(torch.zeros(2))


@torch.compiler.nested_compile_region
def cell():
    return state.hidden * 2 + 1


@torch.compile(backend="aot_eager", fullgraph=True)
def unroll(hidden):
    global state
    for _ in range(3):
        state = State(hidden)
        hidden = cell()
    return hidden


print(unroll(torch.zeros(2)))
