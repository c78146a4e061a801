# A packaged model is fed a batch of another size than it was made for.
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum(dim=1) * 2


program = torch.export.export(Model(), (torch.ones(4, 3),))
package = torch._inductor.aoti_load_package(torch._inductor.aoti_compile_and_package(program))
print(package(torch.ones(4, 3)))
print(tuple(package(torch.ones(6, 3)).shape))
