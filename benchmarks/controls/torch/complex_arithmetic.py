"""Complex arithmetic, with and without non-finite parts."""

import math

import torch
from torch import nn

INF = float("inf")
NAN = float("nan")


def _gen(seed):
    return torch.Generator().manual_seed(seed)


def real_part_of_sum_with_infinite_parts():
    def f(x, y):
        return torch.real(x + y), torch.imag(x - y)

    x = torch.tensor([complex(INF, 1), complex(2, -INF), complex(-INF, INF)])
    y = torch.tensor([complex(1, 1), complex(3, 4), complex(0, 0)])
    return f, (x, y)


def magnitude_of_complex_with_one_infinite_part():
    x = torch.tensor([complex(INF, 0), complex(0, -INF), complex(INF, NAN), complex(NAN, -INF), complex(NAN, 1)])
    return torch.abs, (x,)


def angle_in_all_four_quadrants():
    x = torch.tensor([1 + 1j, -1 + 1j, -1 - 1j, 1 - 1j, 2j, -2j, -3 + 0j, 3 + 0j])
    return (lambda z: torch.angle(z) * 180 / math.pi), (x,)


def angle_of_real_numbers():
    x = torch.tensor([-2.0, -1.0, 0.0, 1.0, 3.5, INF, -INF, NAN])
    return torch.angle, (x,)


def polar_round_trip():
    def f(r, theta):
        z = torch.polar(r, theta)
        return z.abs(), z.angle(), torch.view_as_real(z)

    g = _gen(3)
    r = torch.rand(4, 5, generator=g) + 0.1
    theta = (torch.rand(4, 5, generator=g) - 0.5) * 6
    return f, (r, theta)


def multiplication_of_complex_by_real_scalar_and_tensor():
    def f(z, r):
        return z * r, z * 2.5, (z * 1j).real, r * z.conj()

    g = _gen(4)
    return f, (torch.randn(3, 4, dtype=torch.complex64, generator=g), torch.randn(4, generator=g))


def product_of_infinite_complex_numbers():
    x = torch.tensor([complex(INF, 0), complex(INF, INF), complex(0, INF)])
    y = torch.tensor([complex(1, 0), complex(2, 3), complex(0, 1)])
    return (lambda a, b: a * b), (x, y)


def division_by_complex_zero():
    x = torch.tensor([1 + 1j, 0j, -2 + 0j, complex(INF, 1)])
    y = torch.tensor([0j, 0j, 0j, 1 + 1j])
    return (lambda a, b: a / b), (x, y)


class ComplexLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.re = nn.Linear(n_in, n_out)
        self.im = nn.Linear(n_in, n_out)

    def forward(self, z):
        re = self.re(z.real) - self.im(z.imag)
        im = self.re(z.imag) + self.im(z.real)
        return torch.complex(re, im)


class ComplexMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = ComplexLinear(6, 10)
        self.b = ComplexLinear(10, 3)
        self.bias = nn.Parameter(torch.full((10,), -0.1))

    def forward(self, z):
        h = self.a(z)
        m = h.abs()
        h = torch.relu(m + self.bias) * h / (m + 1e-6)
        return self.b(h).abs()


def complex_mlp_with_modrelu():
    torch.manual_seed(11)
    net = ComplexMLP().eval()
    return net, (torch.randn(5, 6, dtype=torch.complex64, generator=_gen(5)),)


def rotation_of_points_by_unit_phases():
    def rotate(points, angles):
        z = torch.view_as_complex(points.contiguous())
        spun = z[None] * torch.exp(1j * angles)[:, None]
        return torch.view_as_real(spun)

    g = _gen(6)
    return rotate, (torch.randn(7, 2, generator=g), torch.linspace(0, 2 * math.pi, 5))


def complex_exp_log_sqrt_on_the_branch_cut():
    def f(z):
        return torch.log(z), torch.sqrt(z), torch.exp(z)

    return f, (torch.tensor([-1 + 0j, complex(-1, -0.0), -4 + 1e-3j, -4 - 1e-3j, 2j], dtype=torch.complex128),)


def hermitian_product_and_adjoint():
    def f(a):
        h = a @ a.mH
        return h, torch.linalg.vector_norm(a), h.diagonal().real, torch.is_complex(h)

    return f, (torch.randn(2, 3, 4, dtype=torch.complex128, generator=_gen(7)),)


def sgn_and_conjugate_with_zeros():
    def f(z):
        return torch.sgn(z), torch.conj_physical(z), torch.resolve_conj(z.conj()), z.conj().imag

    return f, (torch.tensor([0j, 3 + 4j, -5 + 0j, complex(0, -2), 1e-20 + 0j]),)


def mandelbrot_escape_counts():
    def f(c):
        z = torch.zeros_like(c)
        count = torch.zeros(c.shape, dtype=torch.int64)
        for _ in range(12):
            z = torch.where(z.abs() <= 2, z * z + c, z)
            count += z.abs() <= 2
        return count

    re, im = torch.meshgrid(torch.linspace(-2, 1, 13), torch.linspace(-1.2, 1.2, 9), indexing="xy")
    return f, (torch.complex(re, im),)


def isfinite_isnan_isinf_on_complex():
    def f(z):
        return torch.isfinite(z), torch.isnan(z), torch.isinf(z), z == z, torch.isreal(z)

    return f, (torch.tensor([complex(1, NAN), complex(INF, NAN), complex(INF, 0), 1 + 0j, 2 - 1j]),)
