import torch


class Views(torch.nn.Module):
    def forward(self, x, parts):
        parts["a"].add_(1)
        x.mul_(2)
        y = x.view(-1)
        return x, y, y, x.t(), parts["a"][0], parts["b"]


def inputs(dtype=torch.float32):
    return torch.ones(2, 3, dtype=dtype), {"a": torch.zeros(2), "b": [torch.ones(1), 4]}


views = torch.export.export(Views(), inputs()).module()
for _ in range(2):
    given = inputs()
    out = views(*given)
    print(given[0], given[1]["a"], out[5])
print(views(*inputs(torch.float64))[0].dtype)
with torch.autocast("cpu", dtype=torch.bfloat16):
    multiply = torch.export.export(torch.nn.Linear(3, 3), (torch.ones(2, 3),)).module()
print(multiply(torch.ones(2, 3)).dtype)
compiled = torch.compile(views, backend="aot_eager", fullgraph=True)
print(compiled(*inputs())[0])
