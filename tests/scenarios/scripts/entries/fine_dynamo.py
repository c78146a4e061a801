import torch
import torch._dynamo


@torch._dynamo.optimize("aot_eager")
def double(x, log):
    log.append(1)
    return x * 2


log = []
print(double(torch.ones(2), log), log)
net = torch._dynamo.optimize("aot_eager", nopython=True)(torch.nn.Linear(2, 2))
print(net(torch.ones(1, 2)).shape, net.forward(torch.ones(1, 2)).shape)
half = torch.compiler.compile(lambda x: x / 2, backend="aot_eager") if hasattr(torch.compiler, "compile") else double
print(type(half).__name__)
compiled = torch.compile(torch.nn.Linear(2, 2), backend="aot_eager")
print(compiled.forward(torch.ones(1, 2)).shape, compiled(torch.ones(1, 2)).shape, sorted(compiled.state_dict()))
outer = torch.compile(lambda x: compiled(x).sum(), backend="aot_eager", fullgraph=True)
outer(torch.ones(3, 2)).backward()
