import torch

calls = 0


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.kept = {}
        self.history = []

    def forward(self, x, name):
        global calls
        calls += 1
        y = self.linear(x)
        self.mean.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        self.history.append(y.sum())
        self.kept[name] = y.view(-1)
        return {"y": y, "again": y, "kept": self.kept[name][:2]}


model = torch.compile(Cache(), backend="aot_eager")
for name in ("a", "b", "a"):
    out = model(torch.randn(2, 4), name)
    out["y"].pow(2).sum().backward()
print(calls, sorted(out))
