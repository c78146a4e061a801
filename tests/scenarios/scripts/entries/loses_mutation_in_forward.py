import sys
from pathlib import Path

import torch
import torch._dynamo

sys.path.insert(0, str(Path(__file__).parents[1]))
import broken_backends  # noqa: F401


class Net(torch.nn.Module):
    def forward(self, x):
        return x.add_(1)


compiled = torch._dynamo.optimize("drops_mutations")(Net())
compiled.forward(torch.ones(2))
