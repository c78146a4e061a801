# A learning-rate style constant kept on a class and changed by the training script.
import torch


class Settings:
    scale = 1.0
    names = ("a",)


@torch.compile(backend="aot_eager")
def apply(x):
    return x * Settings.scale + len(Settings.names)


x = torch.tensor([2.0, 4.0])
print(apply(x))
Settings.scale = 10.0
print(apply(x))
Settings.names = ("a", "b", "c")
print(apply(x))
