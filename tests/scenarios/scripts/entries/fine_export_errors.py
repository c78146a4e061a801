import torch


class Pick(torch.nn.Module):
    def forward(self, table, index):
        return table[index]


pick = torch.export.export(Pick(), (torch.arange(6.0), torch.tensor([1, 2]))).module()
print(pick(torch.arange(6.0), torch.tensor([3, 0])))
try:
    pick(torch.arange(6.0), torch.tensor([3, 9]))
except Exception:
    print("refused")
