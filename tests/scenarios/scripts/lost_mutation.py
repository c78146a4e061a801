import broken_backends  # noqa: F401
import torch


def step(state, x):
    state.add_(x)
    return state * 2


compiled = torch.compile(step, backend="drops_mutations")
state = torch.zeros(4)
compiled(state, torch.ones(4))
print(state)
