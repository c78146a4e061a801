# The fill value is a learnable parameter, which torch.full refuses.
import torch


class Pad(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.value = torch.nn.Parameter(torch.tensor(2.5))

    def forward(self, x):
        return torch.cat([x, torch.full((x.shape[0], 1), self.value)], dim=1)


print(torch.compile(Pad(), backend="aot_eager")(torch.zeros(2, 2)))
