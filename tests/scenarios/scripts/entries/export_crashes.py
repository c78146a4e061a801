import torch
import torch.export._trace

del torch.export._trace._produce_aten_artifact  # a name that a pass needs
torch.export.export(torch.nn.ReLU(), (torch.ones(3),)).module()(torch.ones(3))
