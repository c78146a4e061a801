# Sensitivity of a pendulum's swing to its starting angle, in forward mode. Near the floor of the speed it explodes.
import torch


class FlooredSqrt(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return torch.sqrt(x.clamp(min=0.0))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(output)

    @staticmethod
    def jvp(ctx, dx):
        (root,) = ctx.saved_tensors
        return dx / (2 * root.clamp(min=0.1))


class Pendulum:
    def __init__(self, length, damping):
        self.length = length
        self.damping = damping
        self.gravity = 9.81

    def acceleration(self, angle, speed):
        return -self.gravity / self.length * torch.sin(angle) - self.damping * speed

    def step(self, angle, speed, dt):
        speed = speed + dt * self.acceleration(angle, speed)
        angle = angle + dt * speed
        return angle, speed

    def energy(self, angle, speed):
        potential = self.gravity * self.length * (1 - torch.cos(angle))
        return potential + 0.5 * (self.length * speed) ** 2


def simulate(pendulum, angle, steps, dt):
    speed = torch.zeros_like(angle)
    for _ in range(steps):
        angle, speed = pendulum.step(angle, speed, dt)
    return angle, speed


def report(pendulum, angle):
    end, speed = simulate(pendulum, angle, 5, 0.02)
    total = pendulum.energy(end, speed)
    swing = FlooredSqrt.apply(total - 0.001)
    return swing * 2, end


pendulum = Pendulum(1.5, 0.1)


@torch.compile(backend="aot_eager")
def sensitivity(angle, change):
    values, tangents = torch.func.jvp(lambda a: report(pendulum, a), (angle,), (change,))
    return values[0], tangents[0], tangents[1]


angle = torch.tensor([0.001, 0.02, 0.5, 1.2])
swing, by_angle, end = sensitivity(angle, torch.ones(4))
for row in zip(angle.tolist(), swing.tolist(), by_angle.tolist(), end.tolist(), strict=True):
    print([round(v, 4) for v in row])
