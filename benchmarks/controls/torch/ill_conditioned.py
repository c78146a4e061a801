"""Legal but ill-conditioned numerics."""

import torch
import torch.nn.functional as F


def _x(seed, *shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def cancelling_sum_of_large_terms():
    x = torch.tensor([1e8, 1.0, -1e8, 1.0, 3e7, -3e7, 0.5, -0.5])
    return (lambda t: (t.sum(), t.double().sum(), t.cumsum(0))), (x,)


def variance_of_values_with_large_mean():
    def f(x):
        naive = (x * x).mean() - x.mean() ** 2
        return torch.var(x), torch.var(x, correction=0), torch.std(x), naive

    return f, (_x(1, 200) + 10000.0,)


def softmax_with_huge_logits():
    x = torch.tensor([[1e4, 1e4 - 1, -1e4], [3e38, 0.0, -3e38], [88.8, 88.7, 88.6]])
    return (lambda t: (F.softmax(t, -1), F.log_softmax(t, -1))), (x,)


def logsumexp_against_naive_formula():
    def f(x):
        m = x.amax(-1, keepdim=True)
        return (
            torch.logsumexp(x, -1),
            (m.squeeze(-1) + (x - m).exp().sum(-1).log()),
            torch.logaddexp(x[..., 0], x[..., 1]),
        )

    return f, (torch.tensor([[1000.0, 999.0, 1001.0], [-2000.0, -2001.0, -1999.5]]),)


def norms_of_tiny_and_huge_vectors():
    def f(small, big):
        return (
            torch.linalg.vector_norm(small),
            torch.linalg.vector_norm(big),
            big.abs().max() * (big / big.abs().max()).norm(),
        )

    return f, (torch.tensor([3e-25, 4e-25]), torch.tensor([3e25, 4e25]))


def cumulative_product_that_underflows():
    def f(p):
        direct = torch.cumprod(p, 0)
        logs = torch.cumsum(torch.log(p), 0)
        return direct, logs

    return f, (torch.full((60,), 0.03),)


def long_float32_sum_of_small_terms():
    x = torch.full((100_000,), 0.1)
    return (lambda t: (t.sum(), t.mean(), t.view(100, -1).sum(1).sum())), (x,)


def alternating_harmonic_series_in_single_precision():
    def f(n):
        k = torch.arange(1, 5001, dtype=torch.float32)
        return (torch.where(k % 2 == 1, n, -n) / k).sum()

    return f, (torch.tensor(1.0),)


def division_by_values_near_zero():
    def f(x, d):
        return x / d, x / (d.abs() + 1e-12), x * d.reciprocal(), torch.where(d == 0, torch.zeros_like(x), x / d)

    return f, (torch.ones(5), torch.tensor([1e-38, -1e-30, 1e-8, 0.0, -1e-3]))


def solve_of_hilbert_like_and_well_conditioned_systems():
    def f(hilbert, good, b):
        return torch.linalg.solve(good, b), (hilbert @ torch.linalg.solve(hilbert, b) - b).abs().max() < 1e-6

    i = torch.arange(6, dtype=torch.float64)
    return f, (
        1 / (i[:, None] + i + 1),
        torch.eye(6, dtype=torch.float64) * 3 + 0.1 * _x(2, 6, 6, dtype=torch.float64),
        torch.ones(6, 2, dtype=torch.float64),
    )


def solve_of_badly_conditioned_single_precision_system():
    i = torch.arange(5.0)
    return (lambda a, b: torch.linalg.solve(a, b)), (1 / (i[:, None] + i + 1), torch.ones(5))


def inverse_and_determinant_of_nearly_singular_matrix():
    def f(a):
        sign, logdet = torch.linalg.slogdet(a)
        return torch.linalg.inv(a), torch.linalg.det(a), sign, logdet

    return f, (torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.001], [1.0, -1.0, 0.5]], dtype=torch.float64),)


def singular_values_and_reconstruction_from_svd():
    def f(a):
        u, s, vh = torch.linalg.svd(a, full_matrices=False)
        return s, (u * s) @ vh, torch.linalg.matrix_rank(a)

    return f, (
        _x(3, 6, 2, dtype=torch.float64) @ _x(4, 2, 4, dtype=torch.float64)
        + 0.5 * torch.eye(6, 4, dtype=torch.float64),
    )


def qr_factors_of_a_random_matrix_with_their_signs():
    def f(a):
        q, r = torch.linalg.qr(a)
        return q, r, q.mT @ q

    return f, (_x(5, 5, 3, dtype=torch.float64),)


def symmetric_eigenproblem_with_repeated_eigenvalues():
    def f(a):
        w, v = torch.linalg.eigh(a)
        return w, (v * w) @ v.mT, v

    q = torch.linalg.qr(_x(6, 4, 4, dtype=torch.float64))[0]
    a = q @ torch.diag(torch.tensor([1.0, 2.0, 2.0, 5.0], dtype=torch.float64)) @ q.T
    return f, ((a + a.T) / 2,)
