import torch

net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout()).train()
package = torch._inductor.aoti_load_package(
    torch._inductor.aoti_compile_and_package(torch.export.export(net, (torch.ones(8, 3),)))
)
print(package(torch.ones(8, 3)).shape)
net.eval()
package = torch._inductor.aoti_load_package(
    torch._inductor.aoti_compile_and_package(torch.export.export(net, (torch.ones(8, 3),)))
)
print(package(torch.ones(8, 3)).requires_grad)
