"""The programs on which the oracle is measured, with what a compiler may legally make of them, and what it may not.

A workload is a torch function with a maker of inputs. Its *variants* compute the same in another order or with fewer
roundings: each is what some compiler does. Its *bugs* are the mistakes compilers have made. Half-precision variants
accumulate in float32, as the rule demands; a bug called `sums kept in the type` does not.

The file is also the program that the compilers get: a worker imports it and calls `program_of`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

Function = Callable[..., Tensor]
HALVES = (torch.float16, torch.bfloat16)
USUAL = ("float32", "float16", "bfloat16")
WITH_DOUBLE = ("float64", *USUAL)


@dataclass(frozen=True)
class Workload:
    """One program, in several element types. `drifts` are bugs that change results by about 0.01 %.

    `narrowed` is the program that some compilers take it for: composite operations taken apart, and every constant and
    every intermediate result stored in the element type, where torch keeps both in float32. Not a legal variant, since
    it loses digits that torch keeps; it serves to show that this is what such a compiler computes.
    """

    name: str
    inputs: Callable[[torch.dtype, Generator], tuple[Tensor, ...]]
    function: Function
    variants: Mapping[str, Function]
    bugs: Mapping[str, Function]
    drifts: Mapping[str, Function] = field(default_factory=dict)
    narrowed: Function | None = None
    dtypes: tuple[str, ...] = USUAL

    def sample(self, dtype: str, seed: int) -> tuple[Tensor, ...]:
        # The numbers are the same in every type, but for their rounding: that is what makes a lift a lift.
        return self.inputs(getattr(torch, dtype), Generator().manual_seed(seed))


def program_of(name: str, dtype: str) -> tuple[Function, tuple[Tensor, ...]]:
    """The factory that a worker calls."""
    return WORKLOADS[name].function, WORKLOADS[name].sample(dtype, 0)


# -- making numbers ------------------------------------------------------------------------------------------------


def normal(generator: Generator, dtype: torch.dtype, *shape: int, scale: float = 1.0, mean: float = 0.0) -> Tensor:
    return (torch.randn(*shape, generator=generator, dtype=torch.float64) * scale + mean).to(dtype)


def uniform(generator: Generator, dtype: torch.dtype, *shape: int, low: float = 0.5, high: float = 1.5) -> Tensor:
    return (torch.rand(*shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)


def wide(tensor: Tensor) -> Tensor:
    """In the type in which a legal implementation adds up."""
    return tensor.float() if tensor.dtype in HALVES else tensor


def fused(function: Function) -> Function:
    """One kernel that keeps everything in registers: the half types are rounded once, at the end."""

    def run(*inputs: Tensor) -> Tensor:
        return function(*[wide(t) if t.is_floating_point() else t for t in inputs]).to(_dtype(inputs))

    return run


def _dtype(inputs: tuple[Tensor, ...]) -> torch.dtype:
    return next(t.dtype for t in inputs if t.is_floating_point())


def constant(value: float, like: Tensor) -> float:
    """As an element type stores it; float64 attributes of ONNX operators are stored in float32."""
    return float(torch.tensor(value, dtype=torch.float32 if like.dtype == torch.float64 else like.dtype))


def stepwise_softmax(x: Tensor) -> Tensor:
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def sequential_softmax(x: Tensor) -> Tensor:
    """Step by step, with the sum added up one term after the other in the element type: small terms are lost."""
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    total = torch.zeros_like(powers[..., 0])
    for term in powers.unbind(-1):
        total = total + term
    return powers / total[..., None]


def stepwise_norm(x: Tensor, axes: tuple[int, ...], weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(axes, keepdim=True)
    spread = (centred * centred).mean(axes, keepdim=True)
    return centred * torch.rsqrt(spread + constant(1e-5, x)) * weight + bias


def tf32(tensor: Tensor) -> Tensor:
    """Rounded to ten fraction bits."""
    bits = tensor.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def coarse_sum(terms: Tensor, dim: int, block: int = 8) -> Tensor:
    """A sum whose partial results are kept in the element type itself. In float32 and float64, which have no
    accumulator of their own to lose, the partial results are kept in float16 and float32."""
    kept = {torch.float32: torch.float16, torch.float64: torch.float32}.get(terms.dtype, terms.dtype)
    parts = [part.to(wide(part).dtype).sum(dim, keepdim=True) for part in terms.split(block, dim)]
    total = parts[0].to(kept)
    for part in parts[1:]:
        total = (total + part.to(kept)).to(kept)
    return total.to(terms.dtype)


# -- products of matrices ------------------------------------------------------------------------------------------


def product(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def _sequential_product(a: Tensor, b: Tensor) -> Tensor:
    first, second = wide(a), wide(b)
    total = torch.zeros(a.shape[0], b.shape[1], dtype=first.dtype)
    for k in range(a.shape[1]):
        total.addcmul_(first[:, k : k + 1], second[k : k + 1])
    return total.to(a.dtype)


def _split_product(parts: int) -> Function:
    def run(a: Tensor, b: Tensor) -> Tensor:
        pieces = zip(wide(a).chunk(parts, 1), wide(b).chunk(parts, 0), strict=True)
        return torch.stack([x @ y for x, y in pieces]).sum(0).to(a.dtype)

    return run


def _pairwise_product(a: Tensor, b: Tensor) -> Tensor:
    def tree(x: Tensor, y: Tensor) -> Tensor:
        if x.shape[1] <= 8:
            return x @ y
        middle = x.shape[1] // 2
        return tree(x[:, :middle], y[:middle]) + tree(x[:, middle:], y[middle:])

    return tree(wide(a), wide(b)).to(a.dtype)


def _reversed_product(a: Tensor, b: Tensor) -> Tensor:
    return (wide(a).flip(1) @ wide(b).flip(0)).to(a.dtype)


def _coarse_product(a: Tensor, b: Tensor) -> Tensor:
    """Sums kept in half precision; for float32 and float64 the factors lose bits instead (TF32, and float32)."""
    if a.dtype == torch.float32:
        return tf32(a) @ tf32(b)
    if a.dtype == torch.float64:
        return (a.float() @ b.float()).double()
    total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
    for x, y in zip(a.split(8, 1), b.split(8, 0), strict=True):
        total = total + (x.float() @ y.float()).to(a.dtype)
    return total


def _lost_column(a: Tensor, b: Tensor) -> Tensor:
    result = a @ b
    result[:, -1] = 0
    return result


def _matmul(terms: int) -> Workload:
    return Workload(
        f"matmul K={terms}",
        lambda dtype, g: (normal(g, dtype, 64, terms), normal(g, dtype, terms, 64)),
        product,
        {
            "sequential": _sequential_product,
            "split-K": _split_product(4),
            "pairwise": _pairwise_product,
            "reversed": _reversed_product,
        },
        {
            "last term dropped": lambda a, b: a[:, :-1] @ b[:-1],
            "low accumulation or TF32": _coarse_product,
            "result transposed": lambda a, b: (a @ b).t().contiguous(),
            "second factor in the other layout": lambda a, b: a @ b.reshape(b.shape[1], b.shape[0]).t(),
            "last column not written": _lost_column,
        },
        dtypes=WITH_DOUBLE if terms == 256 else USUAL,
    )


def chain(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.einsum("bij,jk,bkl->bil", a, b, c)


_CHAIN = Workload(
    "einsum chain",
    lambda dtype, g: (
        normal(g, dtype, 4, 16, 32),
        normal(g, dtype, 32, 48, scale=32**-0.5),
        normal(g, dtype, 4, 48, 24, scale=48**-0.5),
    ),
    chain,
    {
        "fused": fused(chain),
        "right first": lambda a, b, c: torch.einsum("bij,bjl->bil", a, torch.einsum("jk,bkl->bjl", b, c)),
        "one by one": lambda a, b, c: torch.stack([x @ b @ z for x, z in zip(a, c, strict=True)]),
        "split-K": fused(lambda a, b, c: sum((a[..., i::4] @ b[i::4] for i in range(4)), a.new_zeros(())) @ c),
    },
    {
        "last term dropped": lambda a, b, c: (a[..., :-1] @ b[:-1]) @ c,
        "batch not followed": lambda a, b, c: (a @ b) @ c[:1],
        "middle in the other layout": lambda a, b, c: a @ b.reshape(48, 32).t() @ c,
        "TF32 or low precision between": lambda a, b, c: (
            (tf32(tf32(a) @ tf32(b.expand(4, -1, -1))) @ tf32(c))
            if a.dtype == torch.float32
            else ((a @ b).to(torch.float8_e4m3fn).to(a.dtype) @ c)
        ),
    },
)


# -- convolutions ----------------------------------------------------------------------------------------------------


def convolution(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, padding=1)


def _unfolded_convolution(x: Tensor, w: Tensor) -> Tensor:
    columns = F.unfold(wide(x), 3, padding=1)
    return (wide(w).flatten(1) @ columns).reshape(x.shape[0], w.shape[0], *x.shape[2:]).to(x.dtype)


def _shifted_convolution(x: Tensor, w: Tensor) -> Tensor:
    padded, height, width = F.pad(wide(x), (1, 1, 1, 1)), x.shape[2], x.shape[3]
    total = torch.zeros(x.shape[0], w.shape[0], height, width, dtype=padded.dtype)
    for i in range(3):
        for j in range(3):
            total += torch.einsum("nchw,oc->nohw", padded[:, :, i : i + height, j : j + width], wide(w)[:, :, i, j])
    return total.to(x.dtype)


def _channel_blocks(x: Tensor, w: Tensor) -> Tensor:
    return sum(
        (F.conv2d(wide(x)[:, i : i + 4], wide(w)[:, i : i + 4], padding=1) for i in range(0, x.shape[1], 4)),
        torch.zeros(()),
    ).to(x.dtype)


_CONVOLUTION = Workload(
    "conv 3x3",
    lambda dtype, g: (normal(g, dtype, 2, 16, 16, 16), normal(g, dtype, 16, 16, 3, 3, scale=0.1)),
    convolution,
    {
        "im2col": _unfolded_convolution,
        "shift and add": _shifted_convolution,
        "blocks of channels": _channel_blocks,
        "channels last": lambda x, w: F.conv2d(x.to(memory_format=torch.channels_last), w, padding=1).contiguous(),
    },
    {
        "last channel dropped": lambda x, w: F.conv2d(x[:, :-1], w[:, :-1], padding=1),
        "kernel transposed": lambda x, w: F.conv2d(x, w.transpose(2, 3), padding=1),
        "padding off by one": lambda x, w: F.conv2d(F.pad(x, (0, 2, 1, 1)), w),
        "padding repeats the edge": lambda x, w: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), w),
        "images transposed": lambda x, w: F.conv2d(x.transpose(2, 3), w, padding=1),
    },
)


def transposed_convolution(x: Tensor, w: Tensor) -> Tensor:
    return F.conv_transpose2d(x, w, stride=2, padding=1)


def _spread_then_convolved(x: Tensor, w: Tensor) -> Tensor:
    """Zeros between the elements, and the kernel turned round."""
    x, w = wide(x), wide(w)
    spread = torch.zeros(*x.shape[:2], 2 * x.shape[2] - 1, 2 * x.shape[3] - 1, dtype=x.dtype)
    spread[:, :, ::2, ::2] = x
    return F.conv2d(spread, w.transpose(0, 1).flip(2, 3), padding=1 if w.shape[-1] == 3 else 2)


def _folded(x: Tensor, w: Tensor) -> Tensor:
    columns = torch.einsum("ncp,ck->nkp", wide(x).flatten(2), wide(w).flatten(1))
    size = (2 * x.shape[2], 2 * x.shape[3])
    return F.fold(columns, size, w.shape[-1], padding=1, stride=2).to(x.dtype)


_TRANSPOSED = Workload(
    "conv-transpose",
    lambda dtype, g: (normal(g, dtype, 2, 12, 8, 8), normal(g, dtype, 12, 8, 4, 4, scale=0.2)),
    transposed_convolution,
    {
        "zeros between": fused(_spread_then_convolved),
        "col2im": _folded,
        "blocks of channels": fused(
            lambda x, w: transposed_convolution(x[:, :5], w[:5]) + transposed_convolution(x[:, 5:], w[5:])
        ),
    },
    {
        "kernel not turned round": lambda x, w: transposed_convolution(x, w.flip(2, 3)),
        "last channel dropped": lambda x, w: transposed_convolution(x[:, :-1], w[:-1]),
        "padding off by one": lambda x, w: F.conv_transpose2d(x, w, stride=2)[:, :, :-2, :-2],
        "kernel transposed": lambda x, w: transposed_convolution(x, w.transpose(2, 3)),
    },
)


# -- reductions ------------------------------------------------------------------------------------------------------


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def _online_softmax(x: Tensor) -> Tensor:
    x = wide(x)
    largest, total = torch.full_like(x[:, :1], -math.inf), torch.zeros_like(x[:, :1])
    for block in x.split(64, 1):
        higher = torch.maximum(largest, block.amax(1, keepdim=True))
        total = total * torch.exp(largest - higher) + torch.exp(block - higher).sum(1, keepdim=True)
        largest = higher
    return torch.exp(x - largest) / total


def _base_two_softmax(x: Tensor) -> Tensor:
    powers = torch.exp2((x - x.amax(-1, keepdim=True)) * math.log2(math.e))
    return powers * powers.sum(-1, keepdim=True).reciprocal()


def _short_softmax(x: Tensor) -> Tensor:
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    return powers / powers[:, :-1].sum(-1, keepdim=True)


def _coarse_softmax(x: Tensor) -> Tensor:
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    return powers / coarse_sum(powers, -1)


_SOFTMAX = Workload(
    "softmax",
    lambda dtype, g: (normal(g, dtype, 48, 512, scale=2.0),),
    softmax,
    {
        "online": fused(_online_softmax),
        "base two, reciprocal": fused(_base_two_softmax),
        "by its logarithm": fused(lambda x: torch.exp(x - torch.logsumexp(x, -1, keepdim=True))),
        "reversed": lambda x: torch.softmax(x.flip(-1), -1).flip(-1),
    },
    {
        "one element left out of the sum": fused(_short_softmax),
        "wrong axis": lambda x: torch.softmax(x, 0),
        "sums kept in the type": _coarse_softmax,
        "powers of two": lambda x: torch.softmax(x * math.log(2.0), -1),
        "columns beyond the vector width lost": lambda x: F.pad(torch.softmax(x[:, :-4], -1), (0, 4)),
    },
    narrowed=stepwise_softmax,
    dtypes=WITH_DOUBLE,
)


def logsumexp(x: Tensor) -> Tensor:
    return torch.logsumexp(x, -1)


def _online_logsumexp(x: Tensor) -> Tensor:
    total = torch.logsumexp(x[:, :64], -1)
    for block in x[:, 64:].split(64, 1):
        total = torch.logaddexp(total, torch.logsumexp(block, -1))
    return total


_LOGSUMEXP = Workload(
    "logsumexp",
    lambda dtype, g: (normal(g, dtype, 256, 256, scale=2.0),),
    logsumexp,
    {
        "block by block": fused(_online_logsumexp),
        "by hand": fused(lambda x: torch.log(torch.exp(x - x.amax(-1, True)).sum(-1)) + x.amax(-1)),
        "base two": fused(
            lambda x: (
                torch.log2(torch.exp2((x - x.amax(-1, True)) * math.log2(math.e)).sum(-1)) * math.log(2) + x.amax(-1)
            )
        ),
    },
    {
        "one element left out": lambda x: torch.logsumexp(x[:, :-1], -1),
        "wrong axis": lambda x: torch.logsumexp(x, 0),
        "maximum not added back": lambda x: torch.log(torch.exp(x - x.amax(-1, True)).sum(-1)),
        "sums kept in the type": lambda x: (
            torch.log(coarse_sum(torch.exp(x - x.amax(-1, True)), -1))[:, 0] + x.amax(-1)
        ),
    },
    narrowed=lambda x: torch.log(torch.exp(x - x.amax(-1, True)).sum(-1)) + x.amax(-1),
    dtypes=WITH_DOUBLE,
)


def running_sum(x: Tensor) -> Tensor:
    return torch.cumsum(x, -1)


def _block_scan(x: Tensor) -> Tensor:
    blocks = torch.cumsum(x.reshape(x.shape[0], -1, 32), -1)
    carried = F.pad(torch.cumsum(blocks[..., -1], -1)[:, :-1], (1, 0))
    return (blocks + carried[..., None]).reshape(x.shape)


def _doubling_scan(x: Tensor) -> Tensor:
    step = 1
    while step < x.shape[1]:
        x = torch.cat([x[:, :step], x[:, step:] + x[:, :-step]], 1)
        step *= 2
    return x


def _coarse_scan(x: Tensor) -> Tensor:
    kept = {torch.float32: torch.bfloat16, torch.float64: torch.float32}.get(x.dtype, x.dtype)
    total, results = torch.zeros(x.shape[0], dtype=kept), []
    for column in x.to(kept).unbind(1):
        total = (total + column).to(kept)
        results.append(total)
    return torch.stack(results, 1).to(x.dtype)


_CUMSUM = Workload(
    "cumsum",
    lambda dtype, g: (normal(g, dtype, 32, 256, mean=0.1),),
    running_sum,
    {
        "blocks with carries": fused(_block_scan),
        "doubling": fused(_doubling_scan),
        "by a triangular product": fused(lambda x: x @ torch.ones(256, 256, dtype=x.dtype).triu()),
    },
    {
        "exclusive": lambda x: F.pad(torch.cumsum(x, -1)[:, :-1], (1, 0)),
        "other direction": lambda x: torch.cumsum(x.flip(-1), -1).flip(-1),
        "carry of one block lost": lambda x: torch.cat([torch.cumsum(x[:, :224], -1), torch.cumsum(x[:, 224:], -1)], 1),
        "wrong axis": lambda x: torch.cumsum(x, 0),
        "sums kept in the type": _coarse_scan,
    },
    dtypes=WITH_DOUBLE,
)


def variance(x: Tensor) -> Tensor:
    return torch.var(x, -1, correction=0)


def _welford(x: Tensor) -> Tensor:
    mean, squares = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0])
    for count, column in enumerate(x.unbind(1), 1):
        difference = column - mean
        mean = mean + difference / count
        squares = squares + difference * (column - mean)
    return squares / x.shape[1]


def _merged_variance(x: Tensor) -> Tensor:
    """Variances of blocks, put together by the formula of Chan, Golub and LeVeque."""
    blocks = x.reshape(x.shape[0], 8, -1)
    means = blocks.mean(-1)
    between = (means - means.mean(-1, keepdim=True)).square().mean(-1)
    return blocks.var(-1, correction=0).mean(-1) + between


_VARIANCE = Workload(
    "variance of large means",
    lambda dtype, g: (normal(g, dtype, 256, 128, mean=100.0),),
    variance,
    {
        "two passes": fused(lambda x: (x - x.mean(-1, keepdim=True)).square().mean(-1)),
        "Welford": fused(_welford),
        "merged blocks": fused(_merged_variance),
        "shifted by the first element": fused(
            lambda x: (x - x[:, :1]).square().mean(-1) - (x - x[:, :1]).mean(-1).square()
        ),
    },
    {
        # Stable formulas lose as many digits as mean/deviation has; the textbook one loses its square.
        "mean of squares minus square of mean": fused(lambda x: x.square().mean(-1) - x.mean(-1).square()),
        "unbiased": lambda x: torch.var(x, -1, correction=1),
        "one element left out": lambda x: torch.var(x[:, :-1], -1, correction=0),
        "wrong axis": lambda x: torch.var(x, 0, correction=0).repeat(2),
        "mean kept in half": lambda x: (x - x.mean(-1, keepdim=True).half().to(x.dtype)).square().mean(-1),
    },
    narrowed=lambda x: (x - x.mean(-1, keepdim=True)).square().mean(-1),
    dtypes=WITH_DOUBLE,
)


# -- normalisations --------------------------------------------------------------------------------------------------


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def _layer_norm(epsilon: float = 1e-5, correction: int = 0, left_out: int = 0, biased: bool = True) -> Function:
    def run(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        mean = x[:, : x.shape[1] - left_out].mean(-1, keepdim=True)
        scale = torch.rsqrt(x.var(-1, correction=correction, keepdim=True) + epsilon)
        return (x - mean) * scale * weight + (bias if biased else 0)

    return fused(run)


def _one_pass_layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    mean, squares = x.mean(-1, keepdim=True), x.square().mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(squares - mean.square() + 1e-5) * weight + bias


def _folded_layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Scale and shift folded into one multiplication and one addition."""
    scale = torch.rsqrt(x.var(-1, correction=0, keepdim=True) + 1e-5)
    factor = scale * weight
    return x * factor + (bias - x.mean(-1, keepdim=True) * factor)


_LAYER_NORM = Workload(
    "layer norm",
    lambda dtype, g: (
        (normal(g, torch.float64, 48, 384) + normal(g, torch.float64, 48, 1)).to(dtype),
        uniform(g, dtype, 384),
        normal(g, dtype, 384),
    ),
    layer_norm,
    {
        "two passes": _layer_norm(),
        "one pass": fused(_one_pass_layer_norm),
        "folded": fused(_folded_layer_norm),
        "Welford": fused(
            lambda x, w, b: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(_welford(x)[:, None] + 1e-5) * w + b
        ),
    },
    {
        "no epsilon": _layer_norm(epsilon=0.0),
        "epsilon 1e-6": _layer_norm(epsilon=1e-6),
        "epsilon 1e-3": _layer_norm(epsilon=1e-3),
        "unbiased variance": _layer_norm(correction=1),
        "mean off by one element": _layer_norm(left_out=1),
        "bias dropped": _layer_norm(biased=False),
    },
    narrowed=lambda x, w, b: stepwise_norm(x, (-1,), w, b),
    dtypes=WITH_DOUBLE,
)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return _rms_norm(1e-6)(x, weight)


def _rms_norm(epsilon: float) -> Function:
    def run(x: Tensor, weight: Tensor) -> Tensor:
        y = wide(x)
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + epsilon)).to(x.dtype) * weight

    return run


def _strided_rms(x: Tensor, weight: Tensor) -> Tensor:
    squares = sum((x[:, i::8].square().sum(-1, keepdim=True) for i in range(8)), x.new_zeros(()))
    return x / torch.sqrt(squares / x.shape[1] + 1e-6) * weight


_RMS_NORM = Workload(
    "RMS norm",
    lambda dtype, g: (normal(g, dtype, 48, 384, scale=0.01), uniform(g, dtype, 384)),
    rms_norm,
    {
        "fused": fused(lambda x, w: x * torch.rsqrt(x.square().mean(-1, True) + 1e-6) * w),
        "square root and division": fused(lambda x, w: x / torch.sqrt(x.square().mean(-1, True) + 1e-6) * w),
        "strided lanes": fused(_strided_rms),
    },
    {
        "no epsilon": _rms_norm(0.0),
        "epsilon 1e-5": _rms_norm(1e-5),
        "mean subtracted": lambda x, w: rms_norm(x - x.mean(-1, keepdim=True), w),
        "weight dropped": lambda x, w: rms_norm(x, torch.ones_like(w)),
        "one element left out": fused(lambda x, w: x * torch.rsqrt(x[:, :-1].square().mean(-1, True) + 1e-6) * w),
    },
)


def group_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.group_norm(x, 4, weight, bias)


def _group_norm(
    groups: int = 4, epsilon: float = 1e-5, correction: int = 0, one_pass: bool = False, strided: bool = False
) -> Function:
    def run(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        count, channels, *rest = x.shape
        if strided:
            grouped = x.reshape(count, channels // groups, groups, -1).transpose(1, 2).flatten(2)
        else:
            grouped = x.reshape(count, groups, -1)
        mean = grouped.mean(-1, keepdim=True)
        if one_pass:
            spread = grouped.square().mean(-1, keepdim=True) - mean.square()
        else:
            spread = grouped.var(-1, correction=correction, keepdim=True)
        scaled = (grouped - mean) * torch.rsqrt(spread + epsilon)
        if strided:
            scaled = scaled.reshape(count, groups, channels // groups, -1).transpose(1, 2)
        shape = (1, channels, *[1] * len(rest))
        return scaled.reshape(x.shape) * weight.view(shape) + bias.view(shape)

    return fused(run)


_GROUP_NORM = Workload(
    "group norm",
    lambda dtype, g: (normal(g, dtype, 4, 16, 8, 8, mean=0.3), uniform(g, dtype, 16), normal(g, dtype, 16)),
    group_norm,
    {"two passes": _group_norm(), "one pass": _group_norm(one_pass=True)},
    {
        "half the groups": _group_norm(groups=2),
        "groups strided": _group_norm(strided=True),
        "no epsilon": _group_norm(epsilon=0.0),
        "epsilon 1e-3": _group_norm(epsilon=1e-3),
        "unbiased variance": _group_norm(correction=1),
        "weight and bias reversed": lambda x, w, b: group_norm(x, w.flip(0), b.flip(0)),
    },
    narrowed=lambda x, w, b: stepwise_norm(
        x.reshape(4, 4, 4, 8, 8), (2, 3, 4), w.view(1, 4, 4, 1, 1), b.view(1, 4, 4, 1, 1)
    ).reshape(x.shape),
)


def batch_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, weight, bias, training=True)


def _batch_norm(
    epsilon: float = 1e-5, correction: int = 0, one_pass: bool = False, of: Function = lambda x: x
) -> Function:
    def run(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        seen, axes, shape = of(x), (0, 2, 3), (1, -1, 1, 1)
        mean = seen.mean(axes, keepdim=True)
        if one_pass:
            spread = seen.square().mean(axes, keepdim=True) - mean.square()
        else:
            spread = seen.var(axes, correction=correction, keepdim=True)
        return (x - mean) * torch.rsqrt(spread + epsilon) * weight.view(shape) + bias.view(shape)

    return fused(run)


def _folded_batch_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    mean = x.mean((0, 2, 3))
    scale = weight * torch.rsqrt(x.var((0, 2, 3), correction=0) + 1e-5)
    return x * scale.view(1, -1, 1, 1) + (bias - mean * scale).view(1, -1, 1, 1)


_BATCH_NORM = Workload(
    "batch norm, training",
    lambda dtype, g: (normal(g, dtype, 8, 12, 6, 6, mean=0.5), uniform(g, dtype, 12), normal(g, dtype, 12)),
    batch_norm,
    {
        "two passes": _batch_norm(),
        "one pass": _batch_norm(one_pass=True),
        "folded": fused(_folded_batch_norm),
    },
    {
        "unbiased variance": _batch_norm(correction=1),
        "epsilon 1e-3": _batch_norm(epsilon=1e-3),
        "no epsilon": _batch_norm(epsilon=0.0),
        "statistics of half the batch": _batch_norm(of=lambda x: x[:4]),
        "statistics of the inner pixels": _batch_norm(of=lambda x: x[:, :, :-1, :-1]),
        "bias dropped": lambda x, w, b: batch_norm(x, w, torch.zeros_like(b)),
    },
    narrowed=lambda x, w, b: stepwise_norm(x, (0, 2, 3), w.view(1, -1, 1, 1), b.view(1, -1, 1, 1)),
)


# -- small models ----------------------------------------------------------------------------------------------------


def _mlp(
    activation: Function = F.gelu,
    short_layer: int | None = None,
    factor: Callable[[int], float] = lambda layer: 1.0,
) -> Function:
    def run(x: Tensor, *weights: Tensor) -> Tensor:
        for layer, weight in enumerate(weights):
            x = x[:, :-1] @ weight[:-1] if layer == short_layer else x @ weight
            if factor(layer) != 1.0:
                x = (wide(x) * factor(layer)).to(x.dtype)
            x = activation(x)
        return x

    return run


mlp = _mlp()


def _split_mlp(x: Tensor, *weights: Tensor) -> Tensor:
    for weight in weights:
        x = F.gelu(_split_product(4)(x, weight))
    return x


_MLP = Workload(
    "MLP of 8 layers",
    lambda dtype, g: (
        normal(g, dtype, 32, 96),
        *[normal(g, dtype, 96, 96, scale=1.3 * 96**-0.5) for _ in range(8)],
    ),
    mlp,
    {
        "fused": fused(mlp),
        "split-K": _split_mlp,
        "erf by hand": fused(_mlp(lambda x: x * 0.5 * (1 + torch.erf(x * 2**-0.5)))),
    },
    {
        "one channel dropped in one layer": _mlp(short_layer=3),
        "GELU by tanh": _mlp(lambda x: F.gelu(x, approximate="tanh")),
        "SiLU for GELU": _mlp(F.silu),
        "last layer left out": lambda x, *weights: mlp(x, *weights[:-1]),
        "layers swapped": lambda x, *weights: mlp(x, *weights[:2], weights[3], weights[2], *weights[4:]),
    },
    {
        "one layer x 1.0001": fused(_mlp(factor=lambda layer: 1.0001 if layer == 3 else 1.0)),
        "every layer x 1.0001": fused(_mlp(factor=lambda layer: 1.0001)),
    },
    narrowed=_mlp(lambda x: x * 0.5 * (1 + torch.erf(x * constant(2**-0.5, x)))),
)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return _attention()(q, k, v)


def _attention(scale: float | None = None, axis: int = -1, shift: int = 0, narrowed: bool = False) -> Function:
    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        factor = q.shape[-1] ** -0.5 if scale is None else scale
        scores = (q @ k.transpose(-1, -2)) * (constant(factor, q) if narrowed else factor)
        allowed = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(shift)
        scores = scores.masked_fill(~allowed, -1e4)
        return (stepwise_softmax(scores) if narrowed else torch.softmax(scores, axis)) @ v

    return run


def _flash_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    length = q.shape[-2]
    allowed = torch.ones(length, length, dtype=torch.bool).tril()
    largest = torch.full_like(q[..., :1], -1e30)
    total, result = torch.zeros_like(largest), torch.zeros_like(q)
    for start in range(0, length, 8):
        block = slice(start, start + 8)
        scores = (q @ k[..., block, :].transpose(-1, -2)) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(~allowed[:, block], -math.inf)
        higher = torch.maximum(largest, scores.amax(-1, keepdim=True))
        weights, kept = torch.exp(scores - higher), torch.exp(largest - higher)
        total = total * kept + weights.sum(-1, keepdim=True)
        result = result * kept + weights @ v[..., block, :]
        largest = higher
    return result / total


_SCALE_IN_BFLOAT16 = float(torch.tensor(24**-0.5).to(torch.bfloat16))


_ATTENTION = Workload(
    "causal attention",
    lambda dtype, g: (normal(g, dtype, 2, 4, 24, 24), normal(g, dtype, 2, 4, 24, 24), normal(g, dtype, 2, 4, 24, 24)),
    attention,
    {
        "fused": fused(attention),
        "flash": fused(_flash_attention),
        "scale on the query": fused(lambda q, k, v: _attention(scale=1.0)(q * q.shape[-1] ** -0.5, k, v)),
        "library": fused(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    },
    {
        "mask off by one": _attention(shift=1),
        "mask off by one, stricter": lambda q, k, v: torch.cat(
            [v[..., :1, :], _attention(shift=-1)(q, k, v)[..., 1:, :]], -2
        ),
        "wrong axis": _attention(axis=-2),
        "scale rounded to bfloat16": _attention(scale=_SCALE_IN_BFLOAT16),
        "scale left out": _attention(scale=1.0),
        "value in the other layout": lambda q, k, v: attention(q, k, v.transpose(1, 2).reshape(v.shape)),
    },
    narrowed=_attention(narrowed=True),
)


def embedded_attention(tokens: Tensor, table: Tensor, places: Tensor, mix: Tensor, out: Tensor) -> Tensor:
    return _embedded_attention()(tokens, table, places, mix, out)


def _embedded_attention(
    shift: int = 0,
    placed: bool = True,
    heads: int = 2,
    masked: bool = True,
    library: bool = False,
    narrowed: bool = False,
) -> Function:
    def run(tokens: Tensor, table: Tensor, places: Tensor, mix: Tensor, out: Tensor) -> Tensor:
        x = F.embedding((tokens + shift) % table.shape[0], table)
        x = x + places if placed else x
        batch, length, width = x.shape
        q, k, v = (
            part.reshape(batch, length, heads, width // heads).transpose(1, 2) for part in (x @ mix).chunk(3, -1)
        )
        if library:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=masked)
        else:
            y = _attention(shift=0 if masked else length, narrowed=narrowed)(q, k, v)
        return y.transpose(1, 2).reshape(batch, length, width) @ out

    return run


_EMBEDDED = Workload(
    "embedding + attention",
    lambda dtype, g: (
        torch.randint(0, 50, (2, 16), generator=g),
        normal(g, dtype, 50, 32),
        normal(g, dtype, 16, 32, scale=0.3),
        normal(g, dtype, 32, 96, scale=32**-0.5),
        normal(g, dtype, 32, 32, scale=32**-0.5),
    ),
    embedded_attention,
    {"fused": fused(embedded_attention), "library": fused(_embedded_attention(library=True))},
    {
        "tokens off by one": _embedded_attention(shift=1),
        "places left out": _embedded_attention(placed=False),
        "other number of heads": _embedded_attention(heads=4),
        "no mask": _embedded_attention(masked=False),
        "output projection transposed": lambda t, table, p, m, o: embedded_attention(t, table, p, m, o.t()),
    },
    narrowed=_embedded_attention(narrowed=True),
)


def lstm(x: Tensor, into: Tensor, back: Tensor, bias: Tensor) -> Tensor:
    return _lstm()(x, into, back, bias)


def _lstm(
    order: tuple[int, ...] = (0, 1, 2, 3), squash: Function = torch.sigmoid, forgets: bool = True, hoisted: bool = False
) -> Function:
    """Gates in the order input, forget, cell, output."""

    def run(x: Tensor, into: Tensor, back: Tensor, bias: Tensor) -> Tensor:
        size = back.shape[0]
        hidden = cell = torch.zeros(x.shape[1], size, dtype=x.dtype)
        ahead = x @ into + bias if hoisted else None
        results = []
        for step in range(x.shape[0]):
            given = x[step] @ into + bias if ahead is None else ahead[step]
            gates = given + hidden @ back
            parts = gates.chunk(4, -1)
            take, keep, new, out = (parts[i] for i in order)
            cell = (squash(keep) * cell if forgets else cell) + squash(take) * torch.tanh(new)
            hidden = squash(out) * torch.tanh(cell)
            results.append(hidden)
        return torch.stack(results)

    return run


def _hard_sigmoid(x: Tensor) -> Tensor:
    return F.hardsigmoid(x)


_LSTM = Workload(
    "LSTM",
    lambda dtype, g: (
        normal(g, dtype, 6, 8, 12),
        normal(g, dtype, 12, 64, scale=12**-0.5),
        normal(g, dtype, 16, 64, scale=0.25),
        normal(g, dtype, 64, scale=0.3),
    ),
    lstm,
    {
        "fused": fused(lstm),
        "input products first": fused(_lstm(hoisted=True)),
        "sigmoid by tanh": fused(_lstm(squash=lambda x: 0.5 * torch.tanh(x * 0.5) + 0.5)),
    },
    {
        "gates in another order": _lstm(order=(1, 0, 2, 3)),
        "hard sigmoid": _lstm(squash=_hard_sigmoid),
        "never forgets": _lstm(forgets=False),
        "bias dropped": lambda x, i, b, bias: lstm(x, i, b, torch.zeros_like(bias)),
        "last step repeated": lambda x, i, b, bias: lstm(torch.cat([x[:-1], x[-2:-1]]), i, b, bias),
    },
)


# -- conditioning and transforms ---------------------------------------------------------------------------------------


def quotient(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    return (a * 1.43 - b * 1.43) / (c * 1.43 - d * 1.43)


def _quotient_inputs(dtype: torch.dtype, g: Generator) -> tuple[Tensor, ...]:
    """Differences of numbers that agree in two digits."""
    a, c = (normal(g, torch.float64, 64, 64) for _ in range(2))
    b = a * (1 + normal(g, torch.float64, 64, 64, scale=1e-2))
    d = c * (1 + uniform(g, torch.float64, 64, 64, low=1e-2, high=3e-2))
    return tuple(t.to(dtype) for t in (a, b, c, d))


_QUOTIENT = Workload(
    "quotient (a-b)/(c-d)",
    _quotient_inputs,
    quotient,
    {
        "fused": fused(quotient),
        "reciprocal": fused(lambda a, b, c, d: (a * 1.43 - b * 1.43) * (1 / (c * 1.43 - d * 1.43))),
        "signs turned": lambda a, b, c, d: (b * 1.43 - a * 1.43) / (d * 1.43 - c * 1.43),
    },
    {
        "operands swapped": lambda a, b, c, d: quotient(b, a, c, d),
        "one constant wrong in the fourth digit": lambda a, b, c, d: (a * 1.43 - b * 1.43) / (c * 1.43 - d * 1.4303),
        "wrong scale": lambda a, b, c, d: (a * 1.43 - b * 1.43) / (c - d),
        "shifted by one row": lambda a, b, c, d: quotient(a, b, c, d).roll(1, 0),
    },
    dtypes=WITH_DOUBLE,
)


def transform(x: Tensor) -> Tensor:
    return torch.view_as_real(torch.fft.rfft(x))


def _angles(count: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    turns = torch.outer(torch.arange(count), torch.arange(count // 2 + 1)) % count
    angle = turns.double() * (-2 * math.pi / count)
    return torch.cos(angle).to(dtype), torch.sin(angle).to(dtype)


def _transform_by_product(x: Tensor) -> Tensor:
    cosine, sine = _angles(x.shape[-1], x.dtype)
    return torch.stack([x @ cosine, x @ sine], -1)


def _transform_of_halves(x: Tensor) -> Tensor:
    """One step of Cooley and Tukey by hand."""
    half = x.shape[-1] // 2
    even, odd = torch.fft.fft(x[..., ::2]), torch.fft.fft(x[..., 1::2])
    turn = torch.polar(
        torch.ones(half, dtype=torch.float64), torch.arange(half, dtype=torch.float64) * (-math.pi / half)
    ).to(even.dtype)
    return torch.view_as_real(torch.cat([even + turn * odd, (even - turn * odd)[..., :1]], -1))


_TRANSFORM = Workload(
    "FFT",
    lambda dtype, g: (normal(g, dtype, 32, 128),),
    transform,
    {
        "by a product with a matrix": _transform_by_product,
        "one step by hand": _transform_of_halves,
        "complex": lambda x: torch.view_as_real(torch.fft.fft(x)[..., :65]),
    },
    {
        "conjugated": lambda x: torch.view_as_real(torch.fft.rfft(x).conj().resolve_conj()),
        "normalised": lambda x: torch.view_as_real(torch.fft.rfft(x, norm="ortho")),
        "starts one element late": lambda x: transform(x.roll(-1, -1)),
        "last element taken as zero": lambda x: transform(F.pad(x[..., :-1], (0, 1))),
        "angles in half precision": lambda x: torch.stack(
            [x @ t.half().to(x.dtype) for t in _angles(x.shape[-1], x.dtype)], -1
        ),
    },
    dtypes=("float64", "float32"),  # torch has no transform of half types on a CPU
)


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        _matmul(16), _matmul(256), _matmul(4096), _CONVOLUTION, _SOFTMAX, _LAYER_NORM, _MLP, _QUOTIENT, _ATTENTION,
        _RMS_NORM, _TRANSPOSED, _GROUP_NORM, _BATCH_NORM, _CUMSUM, _LOGSUMEXP, _LSTM, _CHAIN, _EMBEDDED, _VARIANCE,
        _TRANSFORM,
    )
}  # fmt: skip
