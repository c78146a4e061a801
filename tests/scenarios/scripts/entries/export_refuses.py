import torch


class Branch(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x


torch.export.export(Branch(), (torch.ones(3),)).module()(torch.ones(3))
