# A training curriculum with three stages. The stage is switched inside the compiled step and recognised by identity.
import torch


class Stage:
    def __init__(self, name, noise, steps):
        self.name = name
        self.noise = noise
        self.steps = steps
        self.done = 0

    def finished(self):
        return self.done >= self.steps


EASY = Stage("easy", 0.0, 2)
MEDIUM = Stage("medium", 0.5, 1)
HARD = Stage("hard", 2.0, 2)


class Curriculum:
    def __init__(self):
        self.stage = EASY
        self.history = []


def batch(k, size):
    wave = torch.cos(torch.arange(size, dtype=torch.float32) * (k + 1))
    return wave * 0.1 * (k + 1)


def score(x, weights):
    return torch.tanh(x @ weights).mean()


def step(curriculum, x, weights):
    curriculum.stage.done += 1
    value = score(x, weights)
    if curriculum.stage is EASY:
        curriculum.stage = MEDIUM
        return value * 10
    if curriculum.stage is MEDIUM:
        curriculum.stage = HARD
        return value - 1
    curriculum.stage = EASY
    return value + 1


def make_weights(n):
    return torch.linspace(-0.5, 1, n)


curriculum = Curriculum()
compiled = torch.compile(step, backend="aot_eager")
weights = make_weights(4)
for k in range(7):
    x = batch(k, 4)
    value = compiled(curriculum, x, weights)
    print(k, curriculum.stage.name, round(value.item(), 4))
print([(s.name, s.done) for s in (EASY, MEDIUM, HARD)])
