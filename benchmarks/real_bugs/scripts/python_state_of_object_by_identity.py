# The current stage is recognised by identity, and switched while the function runs.
import torch


class Stage:
    def __init__(self, name):
        self.name, self.visits = name, 0


WARM, HOT = Stage("warm"), Stage("hot")


class Machine:
    def __init__(self):
        self.stage = WARM


def step(machine, x):
    machine.stage.visits += 1
    if machine.stage is WARM:
        machine.stage = HOT
        return x + 1
    machine.stage = WARM
    return x * 10


machine = Machine()
compiled = torch.compile(step, backend="aot_eager")
x = torch.ones(2)
for _ in range(4):
    x = compiled(machine, x)
    print(machine.stage.name, x)
print(WARM.visits, HOT.visits)
