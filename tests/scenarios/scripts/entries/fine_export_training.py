import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Tanh(), torch.nn.Linear(8, 1))
module = torch.export.export(net, (torch.randn(16, 4),)).module()
optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
for _ in range(4):
    optimizer.zero_grad()
    loss = module(torch.randn(16, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.4f}", net[0].weight.grad is not None)
with torch.no_grad():
    for parameter in net.parameters():
        parameter.mul_(0.5)
    print(module(torch.ones(16, 4)).requires_grad)
