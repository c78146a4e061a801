# Trains a small network; after a warm-up the gradient of the first layer is to be clipped by a hook. It is not.
import torch


class Net(torch.nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.first = torch.nn.Linear(inputs, width)
        self.second = torch.nn.Linear(width, width)
        self.head = torch.nn.Linear(width, 1)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x)) + x
        return self.head(x).squeeze(-1)


def initialise(net):
    for i, p in enumerate(net.parameters()):
        with torch.no_grad():
            p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float32) + i).reshape(p.shape) * 0.5)


class Log:
    def __init__(self):
        self.rows = []

    def add(self, step, loss, net):
        norm = net.first.weight.grad.norm()
        self.rows.append((step, round(loss.item(), 4), round(norm.item(), 4)))

    def show(self):
        for row in self.rows:
            print(*row)


def clip_hook(module, grad_input, grad_output):
    return tuple(None if g is None else g * 0.01 for g in grad_input)


def batches(n):
    for k in range(n):
        x = torch.cos(torch.arange(12.0) * (k + 1)).reshape(4, 3)
        yield x, x.sum(dim=1)


def train(steps, warm_up):
    net = Net(3, 4)
    initialise(net)
    compiled = torch.compile(net, backend="aot_eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    log = Log()
    for step, (x, y) in enumerate(batches(steps)):
        if step == warm_up:
            net.second.register_full_backward_hook(clip_hook)
        optimizer.zero_grad()
        loss = ((compiled(x) - y) ** 2).mean()
        loss.backward()
        log.add(step, loss, net)
        optimizer.step()
    log.show()


train(5, warm_up=2)
