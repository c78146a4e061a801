# The model counts its calls in a buffer.
import torch


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls = self.calls + 1.0
        return x * self.calls


program = torch.export.export(Counter(), (torch.ones(2),))
package = torch._inductor.aoti_load_package(torch._inductor.aoti_compile_and_package(program))
for _ in range(3):
    print(package(torch.ones(2)))
