# Sensitivity of two quantiles to a change of the data.
import torch


@torch.compile(backend="aot_eager")
def sensitivity(data, change):
    q = torch.tensor([0.25, 0.75])
    return torch.func.jvp(lambda d: torch.quantile(d, q, dim=1), (data,), (change,))


data = torch.tensor([[3.0, 1.0, 2.0, 5.0], [0.0, 4.0, 8.0, 2.0]])
print(sensitivity(data, torch.ones(2, 4)))
