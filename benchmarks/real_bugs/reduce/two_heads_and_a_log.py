# A shared trunk with two heads; the features are also kept for a log. The trunk stops learning.
import torch


class Trunk(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.cos(torch.arange(width * 3, dtype=torch.float32)).reshape(3, width))
        self.bias = torch.nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return torch.tanh(x @ self.weight + self.bias)


class Head(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, width))

    def forward(self, h):
        return (h * self.weight).sum(dim=1)


class FeatureLog:
    def __init__(self):
        self.means = []

    def add(self, features):
        self.means.append(round(features.mean().item(), 4))


class Model(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.half = width // 2
        self.trunk = Trunk(width)

    def forward(self, x):
        h = self.trunk(x)
        return h[:, : self.half], h[:, self.half :], h.detach()


def batch(k):
    x = torch.sin(torch.arange(12.0) * (k + 1)).reshape(4, 3)
    return x, x.sum(dim=1), x.prod(dim=1)


model, first, second = Model(), Head(4), Head(4)
compiled = torch.compile(model)
parameters = [*model.parameters(), *first.parameters(), *second.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
log = FeatureLog()
for k in range(4):
    x, y, z = batch(k)
    optimizer.zero_grad()
    left, right, features = compiled(x)
    log.add(features)
    loss = ((first(left) - y) ** 2).mean() + ((second(right) - z) ** 2).mean()
    loss.backward()
    optimizer.step()
    moved = model.trunk.weight.grad
    print(k, round(loss.item(), 4), "trunk:", None if moved is None else round(moved.norm().item(), 4))
print(log.means)
