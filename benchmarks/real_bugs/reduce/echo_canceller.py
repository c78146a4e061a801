# Removes an echo from a recording, window by window. With half-overlapping windows the result is off.
import torch


class Settings:
    window = 8
    echo_gain = 0.5
    rounds = 2


def smooth(x):
    padded = torch.cat([x[:1], x, x[-1:]])
    return (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4


def energy(x):
    return (x**2).mean()


@torch.compile(backend="aot_eager")
def cancel(signal, echo, gain):
    level = energy(signal)
    echo.mul_(1 - gain)
    weight = torch.sigmoid(level)
    cleaned = signal - weight * smooth(echo)
    return cleaned, level


def make_recording(n):
    t = torch.arange(n, dtype=torch.float32)
    return torch.sin(t * 0.7) + 0.3 * torch.cos(t * 2.1)


def calibrate(settings):
    voice = make_recording(settings.window)
    echo = make_recording(settings.window).flip(0)
    cleaned, level = cancel(voice, echo, settings.echo_gain)
    return cleaned.abs().mean() * level


def process(recording, settings):
    step = settings.window // 2
    parts = []
    for start in range(0, recording.shape[0] - settings.window - step + 1, step):
        voice = recording[start : start + settings.window]
        echo = recording[start + step : start + step + settings.window]
        cleaned, level = cancel(voice, echo, settings.echo_gain)
        parts.append(cleaned[step:] / (1 + level))
    return torch.cat(parts)


def main():
    settings = Settings()
    print("calibration:", round(calibrate(settings).item(), 4))
    recording = make_recording(32)
    for _ in range(settings.rounds):
        cleaned = process(recording, settings)
        print([round(v, 3) for v in cleaned.tolist()])
    print("rest:", round(recording.abs().sum().item(), 3))


main()
