# Keyword arguments are given in another order than the signature has.
import torch


class Two(torch.nn.Module):
    def forward(self, x, y, flip=True):
        return x - y if flip else y - x


program = torch.export.export(Two(), (torch.ones(2),), {"flip": True, "y": torch.zeros(2)}, strict=False)
print(program.module()(torch.full((2,), 5.0), flip=True, y=torch.full((2,), 3.0)))
