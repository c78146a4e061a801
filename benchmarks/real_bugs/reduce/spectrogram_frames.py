# Cuts a decimated recording into frames and looks at the energy of each. The frames come out of the wrong samples.
import torch


class Recorder:
    def __init__(self, rate, gain):
        self.rate = rate
        self.gain = gain
        self.samples = None

    def record(self, seconds):
        t = torch.arange(int(self.rate * seconds), dtype=torch.float64)
        self.samples = torch.sin(t * 0.3) * self.gain
        return self.samples


class Frames(torch.nn.Module):
    def __init__(self, length, hop):
        super().__init__()
        self.length = length
        self.hop = hop
        self.register_buffer("window", torch.hann_window(length, periodic=False, dtype=torch.float64))

    def forward(self, samples, offset):
        samples.add_(offset)
        step = samples.stride(0)
        n = (samples.shape[0] - self.length) // self.hop
        frames = torch.as_strided_copy(samples, (n, self.length), (self.hop * step, step))
        return frames * self.window


class Energy(torch.nn.Module):
    def __init__(self, floor):
        super().__init__()
        self.floor = floor

    def forward(self, frames):
        power = (frames**2).sum(dim=1)
        return torch.log10(power.clamp(min=self.floor))


class Detector(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.frames = Frames(6, 2)
        self.energy = Energy(1e-6)
        self.threshold = 0.2

    def forward(self, samples, offset):
        level = self.energy(self.frames(samples, offset))
        active = level > self.threshold
        return level, active


recorder = Recorder(rate=80, gain=1.5)
detector = torch.compile(Detector(), backend="aot_eager")
decimated = recorder.record(1.0)[::2][:20]
level, active = detector(decimated, 0.25)
print([round(v, 3) for v in level.tolist()])
print(active.tolist())
