import contextlib

import torch

log = []


@contextlib.contextmanager
def logged(name):
    log.append(f"enter {name}")
    try:
        yield
    finally:
        log.append(f"leave {name}")


class Step:
    total = 0

    def __init__(self, scale):
        self.scale = scale

    @torch.compile(backend="aot_eager")
    def run(self, x):
        with logged("run"):
            y = x * self.scale
            print("inside", tuple(y.shape))
            Step.total += 1
            if y.sum() > 3:
                return y, [1, 2]
        return y, None


step = Step(2.0)
step.run(torch.ones(3))
step.scale = 0.1
step.run(torch.ones(3))
print(log, Step.total)
