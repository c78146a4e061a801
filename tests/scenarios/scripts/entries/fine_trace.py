import torch


def branches(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        with torch.no_grad():
            y = x.relu()
        return self.linear(y).view(x.shape[0], -1) + self.calls


traced = torch.jit.trace(branches, torch.ones(3))
print(traced(-torch.ones(3)))
net = torch.jit.trace(Net(), torch.ones(2, 3), check_trace=False)
for rows in (2, 5):
    print(net(torch.randn(rows, 3)).shape)
net.save("net.pt")
torch.jit.save(net, "other.pt")
print(torch.jit.load("net.pt")(torch.ones(2, 3)).shape, torch.jit.load("other.pt")(torch.ones(2, 3)).shape)
frozen = torch.jit.freeze(torch.jit.script(torch.nn.Linear(3, 2).eval()))
print(frozen(torch.ones(1, 3)).requires_grad)
