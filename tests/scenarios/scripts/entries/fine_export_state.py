import torch

calls = []
total = 0


class Meter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("largest", torch.zeros(3), persistent=False)
        self.size = torch.tensor(2.0)
        self.history = []

    def forward(self, x):
        global total
        total += 1
        calls.append("forward")
        self.history.append(1)
        print("forward of", tuple(x.shape))
        self.seen = self.seen + 1
        self.largest.copy_(torch.maximum(self.largest, x))
        return {"x": x * self.seen / self.size, "calls": len(self.history), "largest": self.largest.clone()}


program = torch.export.export(Meter(), (torch.ones(3),))
meter = program.module()
for step in range(3):
    out = meter(torch.full((3,), float(step)))
print(sorted(out), meter.seen, meter.largest, len(calls), total, program.graph_signature.buffers_to_mutate)
again = program.module()
again(torch.ones(3))
print(again.seen.item())
