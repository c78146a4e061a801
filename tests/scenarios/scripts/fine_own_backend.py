import torch

graphs = []


def counting(gm, example):
    graphs.append(gm)
    print("graph", len(graphs))
    return gm.forward


@torch.compile(backend=counting)
def f(x):
    return x.cos() + 1


f(torch.ones(2))
f(torch.ones(3))
print("graphs:", len(graphs))
