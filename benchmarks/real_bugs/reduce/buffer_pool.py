# Normalises readings and grows a scratch buffer of them when needed. The readings themselves grow.
import torch


class Pool:
    def __init__(self, sizes):
        self.sizes = sorted(sizes)
        self.used = []

    def size_for(self, n):
        for size in self.sizes:
            if size >= n:
                return size
        return n

    def note(self, size):
        self.used.append(size)


class Sensor:
    def __init__(self, offset, gain):
        self.offset = offset
        self.gain = gain

    def correct(self, raw):
        return (raw - self.offset) * self.gain


def spread(x):
    return x.max() - x.min()


def clean(raw, sensor, size):
    readings = sensor.correct(raw) + 0.0
    scratch = readings.view(-1)
    scratch.resize_(size)
    limited = readings.clamp(-5, 5)
    return limited * 2, readings.shape[0]


def summarise(values, n):
    head = [round(v, 3) for v in values[:3].tolist()]
    return f"{n} readings, first {head}"


def make_raw(n, phase):
    return torch.sin(torch.arange(n, dtype=torch.float32) + phase) * 4


def main():
    pool = Pool([4, 8, 16])
    sensor = Sensor(0.5, 1.5)
    compiled = torch.compile(clean)
    with torch.no_grad():
        for k, n in enumerate((3, 3)):
            raw = make_raw(n, k)
            size = pool.size_for(n)
            pool.note(size)
            values, count = compiled(raw, sensor, size)
            print(summarise(values, count), "size", tuple(values.shape), "spread", round(spread(raw).item(), 3))
    print(pool.used)


main()
