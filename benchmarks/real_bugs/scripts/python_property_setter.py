# A property that converts on the way in and on the way out.
import torch


class Celsius:
    def __init__(self, degrees):
        self._kelvin = degrees + 273

    @property
    def degrees(self):
        return self._kelvin - 273

    @degrees.setter
    def degrees(self, value):
        self._kelvin = value * 2


def warm(x):
    t = Celsius(20)
    t.degrees = 300
    return x + t.degrees


print(torch.compile(warm, backend="aot_eager")(torch.zeros(2)))
