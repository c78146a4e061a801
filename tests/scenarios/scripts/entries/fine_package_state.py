import torch


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.full((1,), 3.0))
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.python = 0

    def forward(self, x):
        self.python += 1
        x.mul_(2)
        return {"out": x * self.scale * self.weight, "python": self.python}


program = torch.export.export(Scaled(), (torch.ones(2),))
package = torch._inductor.aoti_load_package(torch._inductor.aoti_compile_and_package(program))
for _ in range(3):
    x = torch.ones(2)
    print(package(x)["out"].numpy(), x)
