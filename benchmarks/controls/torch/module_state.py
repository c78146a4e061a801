"""State in modules, captured tensors, mixed dtypes and structured outputs."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


def _x(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def counter_buffer_incremented_in_forward():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            self.calls += 1
            return x * 2 + 1

    return Counter().eval(), (_x(1, 3),)


def counter_buffer_returned_from_forward():
    class Stepper(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("step", torch.tensor(0))

        def forward(self, x):
            self.step.add_(1)
            return x / self.step, self.step.clone()

    return Stepper().eval(), (torch.tensor([6.0, 12.0]),)


def running_mean_kept_by_hand():
    class RunningNorm(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.register_buffer("mean", torch.zeros(dim))
            self.register_buffer("sq", torch.ones(dim))

        def forward(self, x):
            with torch.no_grad():
                self.mean.lerp_(x.mean(0), 0.1)
                self.sq.mul_(0.9).add_(x.pow(2).mean(0), alpha=0.1)
            std = (self.sq - self.mean**2).clamp(min=1e-6).sqrt()
            return (x - self.mean) / std

    return RunningNorm(4).train(), (_x(2, 16, 4) * 2 + 1,)


def buffer_replaced_by_assignment():
    class LastInput(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", torch.zeros(3))

        def forward(self, x):
            diff = x - self.last
            self.last = x.detach().clone()
            return diff

    return LastInput().eval(), (torch.tensor([1.0, 2.0, 3.0]),)


def module_configured_by_python_attributes():
    class Configurable(nn.Module):
        def __init__(self, scale, activation, repeats):
            super().__init__()
            self.scale = scale
            self.activation = activation
            self.repeats = repeats
            self.names = ["a", "b"]
            self.lin = nn.Linear(5, 5)

        def forward(self, x):
            act = getattr(F, self.activation)
            for i in range(self.repeats):
                x = act(self.lin(x)) * self.scale[self.names[i % 2]]
            return x

    torch.manual_seed(3)
    return Configurable({"a": 0.5, "b": 2.0}, "leaky_relu", 3).eval(), (_x(3, 2, 5),)


def tied_embedding_and_output_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(9, 6)
            self.out = nn.Linear(6, 9, bias=False)
            self.out.weight = self.emb.weight

        def forward(self, ids):
            return self.out(torch.tanh(self.emb(ids)))

    torch.manual_seed(4)
    return Tied().eval(), (torch.tensor([[0, 3, 8], [2, 2, 5]]),)


def tied_autoencoder_with_transposed_weight():
    class TiedAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(8, 3) * 0.4)
            self.b = nn.Parameter(torch.zeros(3))
            self.c = nn.Parameter(torch.zeros(8))

        def forward(self, x):
            h = torch.sigmoid(F.linear(x, self.w.t(), self.b))
            return F.linear(h, self.w, self.c)

    torch.manual_seed(5)
    return TiedAE().eval(), (_x(5, 4, 8),)


def closure_over_a_constant_table():
    table = torch.linspace(0, 1, 11) ** 2

    def lookup(x):
        pos = x.clamp(0, 1) * 10
        lo = pos.floor().long().clamp(max=9)
        return torch.lerp(table[lo], table[lo + 1], pos - lo)

    return lookup, (torch.tensor([-0.5, 0.0, 0.15, 0.5, 0.99, 1.0, 3.0]),)


def mixed_double_and_single_precision_module():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.b = nn.Linear(4, 2).double()

        def forward(self, x):
            h = torch.relu(self.a(x))
            return self.b(h.double()), h + torch.ones(4, dtype=torch.float64), h * 2.0

    torch.manual_seed(7)
    return Mixed().eval(), (_x(7, 3, 4),)


def dictionary_output_of_a_detector_head():
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.cls = nn.Conv2d(4, 3, 1)
            self.box = nn.Conv2d(4, 4, 1)

        def forward(self, feats):
            return OrderedDict(
                logits=self.cls(feats).flatten(2).transpose(1, 2),
                boxes=self.box(feats).sigmoid().flatten(2).transpose(1, 2),
                size=tuple(feats.shape[-2:]),
            )

    torch.manual_seed(8)
    return Head().eval(), (_x(8, 1, 4, 3, 3),)


Stats = namedtuple("Stats", ["mean", "std", "extremes"])


def namedtuple_output_with_nested_tuple():
    def f(x):
        return Stats(mean=x.mean(0), std=x.std(0), extremes=(x.amin(0), x.amax(0)))

    return f, (_x(9, 10, 3),)


@dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor
    hidden: list


def dataclass_output_like_model_libraries():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
            self.head = nn.Linear(6, 4)

        def forward(self, x, labels):
            hidden = [x]
            for layer in self.layers:
                hidden.append(torch.tanh(layer(hidden[-1])))
            logits = self.head(hidden[-1])
            return Output(loss=F.cross_entropy(logits, labels), logits=logits, hidden=hidden)

    torch.manual_seed(10)
    return Model().eval(), (_x(10, 5, 6), torch.tensor([0, 3, 1, 1, 2]))


def list_state_collected_during_forward():
    class Recorder(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(3, 3)
            self.trace = []

        def forward(self, x):
            self.trace.clear()
            for _ in range(3):
                x = torch.sin(self.lin(x))
                self.trace.append(x.abs().mean())
            return x, torch.stack(self.trace)

    torch.manual_seed(11)
    return Recorder().eval(), (_x(11, 2, 3),)


def parameter_dict_and_nested_module_list():
    class Multi(nn.Module):
        def __init__(self):
            super().__init__()
            self.scales = nn.ParameterDict({k: nn.Parameter(torch.tensor(v)) for k, v in (("x", 0.5), ("y", -2.0))})
            self.branches = nn.ModuleDict({"x": nn.Sequential(nn.Linear(3, 3), nn.ReLU()), "y": nn.Identity()})

        def forward(self, inp):
            return {k: self.scales[k] * self.branches[k](inp) for k in sorted(self.branches)}

    torch.manual_seed(12)
    return Multi().eval(), (_x(12, 4, 3),)


def exponential_moving_average_of_weights():
    class EMA(nn.Module):
        def __init__(self):
            super().__init__()
            self.online = nn.Linear(4, 2)
            self.target = nn.Linear(4, 2)
            for p in self.target.parameters():
                p.requires_grad_(False)

        @torch.no_grad()
        def update(self):
            for t, o in zip(self.target.parameters(), self.online.parameters(), strict=False):
                t.mul_(0.99).add_(o, alpha=0.01)

        def forward(self, x):
            self.update()
            return F.mse_loss(self.online(x), self.target(x)), self.target.weight.clone()

    torch.manual_seed(13)
    return EMA().train(), (_x(13, 6, 4),)
