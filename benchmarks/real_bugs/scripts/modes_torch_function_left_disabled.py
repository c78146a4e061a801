# Subclass handling is switched off for a moment and on again, inside.
import torch


class Metres(torch.Tensor):
    pass


@torch.compile(backend="eager")
def plain(x):
    with torch._C.DisableTorchFunctionSubclass():
        again = torch._C._EnableTorchFunction()
        del again
    return x + 1


print(plain(torch.ones(1)))
length = torch.ones(2).as_subclass(Metres)
print(type(length * 2).__name__, torch._C._is_torch_function_enabled())
