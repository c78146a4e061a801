import broken_backends  # noqa: F401
import torch


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1)
        return x * self.seen


model = Counter()
model.compile(backend="drops_mutations")
for _ in range(3):
    out = model(torch.ones(2))
print(out)
