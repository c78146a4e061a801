import torch


@torch.compile(backend="aot_eager")
def which(x):
    return x + 1 if torch.compiler.is_compiling() else x


which(torch.ones(2))
