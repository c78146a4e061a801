# A residual block that adds in place to what dropout gave back. In eval mode dropout gives back its own argument.
import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.full((3,), 2.0))

    def forward(self, hidden):
        kept = F.dropout(hidden, 0.3, self.training)
        kept += 1.0
        return (kept * self.gain).detach(), hidden.sum()


block = torch.compile(Block().eval(), backend="aot_eager")
with torch.no_grad():
    hidden = torch.zeros(2, 3)
    out, total = block(hidden)
    print("out:", out)
    print("total of the input seen inside:", total.item())
    print("input after the call:", hidden)
