# Page numbers: int64 positions divided by a zero-dimensional int64 buffer, in a package.
import torch


class Pages(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.size = torch.tensor(3, dtype=torch.int64)

    def forward(self, positions):
        return torch.floor_divide(positions, self.size)


program = torch.export.export(Pages(), (torch.arange(8),))
package = torch._inductor.aoti_load_package(torch._inductor.aoti_compile_and_package(program))
print(package(torch.arange(-4, 4)))
