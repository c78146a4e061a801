# How the focus of a lens moves with its curvature, by dual numbers through a compiled ray tracer. There is no tangent.
import torch
import torch.autograd.forward_ad as forward_ad


class Lens:
    def __init__(self, index, thickness):
        self.index = index
        self.thickness = thickness

    def power(self, front, back):
        n = self.index
        return (n - 1) * (1 / front - 1 / back + (n - 1) * self.thickness / (n * front * back))


class Bench:
    def __init__(self, lenses, gaps):
        self.lenses = lenses
        self.gaps = gaps


def refract(height, slope, power):
    return height, slope - height * power


def travel(height, slope, distance):
    return height + slope * distance, slope


def trace(bench, curvatures):
    height = torch.ones(())
    slope = torch.zeros(())
    for i, lens in enumerate(bench.lenses):
        power = lens.power(curvatures[2 * i], curvatures[2 * i + 1])
        height, slope = refract(height, slope, power)
        if i < len(bench.gaps):
            height, slope = travel(height, slope, bench.gaps[i])
    return -height / slope


def show(name, value, tangent):
    text = "none" if tangent is None else round(tangent.item(), 4)
    print(name, "focus", round(value.item(), 4), "moves by", text)


bench = Bench([Lens(1.5, 0.2), Lens(1.6, 0.1)], [0.5])
focus = torch.compile(lambda curvatures: trace(bench, curvatures))
curvatures = torch.tensor([5.0, -6.0, 8.0, -7.0])
directions = {"front": torch.tensor([1.0, 0.0, 0.0, 0.0]), "all": torch.full((4,), 0.5)}
for name, direction in directions.items():
    with forward_ad.dual_level():
        value, tangent = forward_ad.unpack_dual(focus(forward_ad.make_dual(curvatures, direction)))
        show(name, value, tangent)
