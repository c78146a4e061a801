import torch


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.count: int = 0
        self.names = ["a"]
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x, extra: list[torch.Tensor], table: dict[str, int]):
        self.count += 1
        self.seen.add_(1)
        self.names.append("b")
        extra.append(x)
        print("inside", x.shape)
        return self.linear(x) * self.count, self.seen, len(self.names), table["a"]


counter = torch.jit.script(Counter())
for _ in range(3):
    out = counter(torch.ones(2, 3), [torch.ones(1)], {"a": 3})
    out[0].sum().backward()
print(counter.count, out[1:], counter.linear.weight.grad.shape)
counter.eval()
print(counter(torch.ones(1, 3), [torch.ones(1)], {"a": 2})[3], "forward" in counter.code)
