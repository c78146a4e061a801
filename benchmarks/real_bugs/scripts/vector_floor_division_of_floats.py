# Bin numbers by floor division.
import torch


@torch.compile
def bins(values, width):
    return values // width


print(bins(torch.tensor([1.0, 0.5, 6.0, 1.0]), torch.tensor([0.1, 0.1, 0.2, 1 / 3])))
print(bins(torch.arange(1, 21, dtype=torch.float64) / 10, torch.tensor(0.1, dtype=torch.float64)))
