# Activations are collected in a list that belongs to the class.
import torch


class Probe(torch.nn.Module):
    seen = []

    def forward(self, x):
        Probe.seen.append(x.mean())
        return x * 2


probe = Probe()
run = torch.compile(probe.forward, backend="aot_eager")
for step in range(3):
    run(torch.full((4,), float(step)))
print("collected:", len(Probe.seen), [round(v.item(), 2) for v in Probe.seen])
