# A property computed from two fields.
import torch


class Window:
    def __init__(self, start, length):
        self.start, self.length = start, length

    @property
    def end(self):
        return self.start + self.length


@torch.compile
def cut(x, window):
    return x[window.start : window.end]


print(cut(torch.arange(8), Window(2, 3)), cut(torch.arange(8), Window(0, 5)))
