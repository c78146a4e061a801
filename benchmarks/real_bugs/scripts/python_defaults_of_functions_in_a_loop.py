# The classical way to bind a loop variable: as a default argument.
import torch


def run(f, x):
    return f(x)


compiled = torch.compile(run, backend="aot_eager")
for k in (1.0, 5.0, 9.0):

    def shift(x, by=k):
        return x + by

    print(compiled(shift, torch.zeros(2)))
