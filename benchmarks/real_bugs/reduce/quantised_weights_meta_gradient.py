# Gradients of a network with four-bit weights, by torch.func. They come out as zero for the weights.
import torch


class FourBits(torch.autograd.Function):
    @staticmethod
    def forward(w, scale):
        return torch.clamp(torch.round(w / scale), -8, 7) * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        w, scale = inputs
        ctx.save_for_backward(w, scale)

    @staticmethod
    def backward(ctx, grad):
        w, scale = ctx.saved_tensors
        inside = ((w / scale) > -8) & ((w / scale) < 7)
        return grad * inside, None


def layer(parameters, x):
    weight = FourBits.apply(parameters["weight"], parameters["scale"])
    return x @ weight + parameters["bias"]


def network(parameters, x):
    hidden = torch.tanh(layer(parameters["first"], x))
    return layer(parameters["second"], hidden)


def loss(parameters, x, y):
    prediction = network(parameters, x)
    penalty = sum((p["weight"] ** 2).sum() for p in parameters.values())
    return ((prediction - y) ** 2).mean() + 0.0 * penalty


def make(rows, columns, shift):
    weight = torch.linspace(-1, 1, rows * columns).reshape(rows, columns) + shift
    return {"weight": weight, "scale": torch.tensor(0.25), "bias": torch.zeros(columns)}


def step(parameters, gradients, rate):
    return {
        name: {key: value - rate * gradients[name][key] for key, value in part.items()}
        for name, part in parameters.items()
    }


parameters = {"first": make(2, 3, 0.05), "second": make(3, 1, -0.1)}
x = torch.tensor([[0.5, -1.0], [1.5, 0.25], [-0.75, 2.0], [0.1, 0.3]])
y = x.sum(dim=1, keepdim=True)
gradient = torch.compile(torch.func.grad(loss), backend="aot_eager")
for _ in range(3):
    gradients = gradient(parameters, x, y)
    parameters = step(parameters, gradients, 0.05)
    print({name: round(part["weight"].abs().sum().item(), 4) for name, part in gradients.items()})
print(round(loss(parameters, x, y).item(), 4))
