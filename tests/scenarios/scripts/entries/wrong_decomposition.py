import torch


def silu(x):
    return x * torch.sigmoid(x * 1.01)


program = torch.export.export(torch.nn.SiLU(), (torch.randn(4),))
decomposed = program.run_decompositions({torch.ops.aten.silu.default: silu}).module()
print(program.module()(torch.ones(4)), decomposed(torch.ones(4)))
