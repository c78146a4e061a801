import io

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        return torch.nn.functional.silu(self.linear(self.norm(x)))


program = torch.export.export(Net().eval(), (torch.randn(3, 4),))
kept = io.BytesIO()
torch.export.save(program, kept)
kept.seek(0)
torch.export.save(program, "net.pt2")
for one in (program, torch.export.load(kept), torch.export.load("net.pt2"), program.run_decompositions()):
    print(one.module()(torch.ones(3, 4)).shape, len(list(one.graph.nodes)) > 0)
flat = torch.export.unflatten(program)
print(flat(torch.zeros(3, 4)).shape, type(flat.linear).__name__, sorted(program.state_dict))
training = torch.export.export(Net(), (torch.randn(3, 4),)).run_decompositions().module()
training(torch.randn(3, 4))
print(training.get_buffer("norm.num_batches_tracked"))
