import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x, *, scale, flip=True):
        y = torch.nn.functional.gelu(self.linear(x))
        return (y * scale).flip(0) if flip else y


net = Net().eval()
shapes = {"x": {0: torch.export.Dim("rows", min=2, max=64)}, "scale": None, "flip": None}
program = torch.export.export(net, (torch.randn(3, 4),), {"flip": True, "scale": torch.ones(1)}, dynamic_shapes=shapes)
path = torch._inductor.aoti_compile_and_package(program, package_path="net.pt2")
package = torch._inductor.aoti_load_package(path)
for rows in (3, 9):
    print(package(torch.randn(rows, 4), flip=True, scale=torch.ones(1)).shape)
with torch.no_grad():
    net.linear.weight.zero_()
print(package(torch.randn(3, 4), flip=True, scale=torch.ones(1)).abs().sum() > 0)
