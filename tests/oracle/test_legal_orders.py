"""Legal orders of summation that differ from torch's own in more than one element at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch_programs import Program

from driftline.core.tensors import Array
from driftline.oracle.arithmetic import declared
from driftline.oracle.shadow.tape import contracted_terms
from driftline.oracle.shadow.torch.einsum import has_other_order


@pytest.mark.parametrize("seed", range(6))
def test_a_running_sum_may_carry_its_errors_along(seed: int) -> None:
    """Each row's errors point the same way: drawn one by one they would look like a bias."""
    x = torch.randn(32, 256, generator=torch.Generator().manual_seed(seed)) + 0.1
    program = Program(lambda x: torch.cumsum(x, -1), x)
    by_product = {"output": (x @ torch.ones(256, 256).triu()).numpy()}
    assert program.judge(by_product).finding is None


def test_a_running_sum_in_half_precision_is_found() -> None:
    x = torch.randn(32, 256, generator=torch.Generator().manual_seed(0)).half()
    program = Program(lambda x: torch.cumsum(x, -1), x)
    total, columns = torch.zeros(32, dtype=torch.float16), []
    for column in x.unbind(1):
        total = total + column
        columns.append(total)
    assert program.judge({"output": torch.stack(columns, 1).numpy()}).finding


NEARLY_EQUAL = pytest.mark.parametrize(
    ("dtype", "terms", "policy"), [(torch.float32, 64, ""), (torch.float16, 18, "half-accumulation")]
)


def product_and_sum(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A linear layer written out, which compilers fuse."""
    return bias + (x.reshape(4, 16, -1) @ weight.T).reshape(64, 3)


LAYERS = pytest.mark.parametrize("layer", [torch.nn.functional.linear, product_and_sum])


def added_to_bias(layer: Any, dtype: torch.dtype, terms: int, policy: str) -> tuple[Program, torch.Tensor]:
    """A linear layer with nearly equal terms and a large bias, and its result where the sum begins with the bias."""
    generator = torch.Generator().manual_seed(0)
    near = 16 * torch.finfo(dtype).eps
    x = (2.65 + near * torch.rand(64, terms, generator=generator)).to(dtype)
    weight = (0.258 + near / 10 * torch.rand(3, terms, generator=generator)).to(dtype)
    bias = torch.tensor([1000.0, 999.0, 1001.0], dtype=dtype)
    total = bias.expand(64, 3)
    for k in range(terms):
        total = total + x[:, k : k + 1] * weight[None, :, k]
    return Program(layer, x, weight, bias, arithmetic=declared(policy)), total


@LAYERS
@NEARLY_EQUAL
def test_equal_terms_may_all_round_alike_when_the_sum_begins_with_the_bias(
    layer: Any, dtype: torch.dtype, terms: int, policy: str
) -> None:
    """Each addition to the bias rounds the same way, in every element: drawn one by one it would look like a bias."""
    program, total = added_to_bias(layer, dtype, terms, policy)
    assert program.judge({"output": total.numpy()}).finding is None


@LAYERS
@NEARLY_EQUAL
def test_equal_terms_excuse_no_lost_products(layer: Any, dtype: torch.dtype, terms: int, policy: str) -> None:
    program, total = added_to_bias(layer, dtype, terms, policy)
    bias = torch.tensor([1000.0, 999.0, 1001.0], dtype=dtype).expand(total.shape)
    assert program.judge({"output": bias.numpy()}).finding


@LAYERS
def test_sums_in_half_precision_are_found_although_their_terms_are_equal(layer: Any) -> None:
    program, total = added_to_bias(layer, torch.float16, 18, "")
    assert program.judge({"output": total.numpy()}).finding


def product_written_to(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    product = x @ weight.T
    product += bias
    return product


def product_added_in_place(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    total = bias.repeat(len(x), 1)
    total += x @ weight.T
    return total


@pytest.mark.parametrize("function", [product_and_sum, product_written_to, product_added_in_place])
def test_each_product_may_round_to_the_last_digit_of_a_large_addend(function: Callable[..., Any]) -> None:
    """Terms that have nothing in common: their errors walk, and the walk is as long as there are products."""
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(64, 1024, generator=generator), torch.randn(3, 1024, generator=generator)
    bias = torch.tensor([30000.0, 29000.0, 31000.0])
    total = bias.expand(64, 3)
    for k in range(1024):
        total = total + x[:, k : k + 1] * weight[None, :, k]
    program = Program(function, x, weight, bias)
    assert program.judge({"output": total.numpy()}).finding is None
    assert program.judge({"output": (total * 1.00001).numpy()}).finding


ITSELF: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "itself": lambda product: product - product,
    "its copy": lambda product: product - product.clone(),
    "its opposite": lambda product: -product + product,
}


@pytest.mark.parametrize("name", ITSELF)
def test_what_is_taken_from_itself_leaves_nothing(name: str) -> None:
    """No sum of products begins with its own result. Taking that for possible made all of these zeros unjudged."""
    program = Program(lambda x: ITSELF[name](x @ x.T), torch.randn(5, 40, generator=torch.Generator().manual_seed(0)))
    assert program.judge(program.native).finding is None
    wrong = program.copy()
    wrong["output"][2, 3] = 1e-4
    found = program.judge(wrong).finding
    assert found and found.evidence.wrong == 1


@pytest.mark.parametrize("seed", range(4))
def test_an_einsum_of_three_may_be_one_long_sum(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((4, 16, 32), (32, 48), (4, 48, 24))
    a, b, c = (torch.randn(*shape, generator=generator) for shape in shapes)
    program = Program(lambda a, b, c: torch.einsum("bij,jk,bkl->bil", a, b, c), a, b, c)
    total = torch.zeros(4, 16, 24)
    for j in range(32):
        for k in range(48):
            total += a[:, :, j, None] * b[j, k] * c[:, None, k, :]
    assert program.judge({"output": total.numpy()}).finding is None


def test_the_terms_of_an_einsum_are_those_of_all_contracted_indices() -> None:
    a, b, c = torch.ones(2, 3), torch.ones(3, 5), torch.ones(5, 7)
    assert contracted_terms(("ij,jk,kl->il", a, b, c)) == 15
    assert contracted_terms(("ij,jk->ik", a, b)) == 0  # one product: its own rule knows


def contracted(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return torch.einsum("bij,bjk,k->bi", x, y, z)


def from_left(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Array:
    with torch.backends.opt_einsum.flags(enabled=False):
        total: Array = contracted(x, y, z).numpy()
        return total


def test_an_einsum_of_three_may_be_contracted_from_the_left() -> None:
    """Its first product is a subnormal number there, which is rounded coarsely; in torch's own order it is not."""
    x, y, z = torch.full((2, 7, 3), 1e-45), torch.full((2, 3, 1), 1.6), torch.tensor([-1.7014117e38])
    program = Program(contracted, x, y, z)
    total = from_left(x, y, z)
    assert not np.allclose(total, program.native["output"], rtol=0.1)
    assert program.judge({"output": total}).finding is None


def test_the_other_order_of_an_einsum_is_tried_where_there_is_one() -> None:
    a, b, c = torch.zeros(16, 3), torch.zeros(3, 20), torch.zeros(20, 1)
    assert has_other_order("ij,jk,kl->il", (a, b, c))
    assert not has_other_order("ij,jk,kl->il", (a[:1], b, torch.zeros(20, 30)))  # from left to right is best
    assert not has_other_order("ij,jk->ik", (a, b))
    assert not has_other_order("a,b,ab->", (torch.zeros(4000), torch.zeros(4000), torch.zeros(4000, 4000)))  # too large


@pytest.mark.parametrize("after", [lambda y: y, lambda y: y.add_(0.5).view(-1), lambda y: y.t().contiguous()])
def test_an_einsum_of_three_with_a_wrong_element_is_found(after: Callable[[torch.Tensor], torch.Tensor]) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y, z = (torch.randn(*shape, generator=generator) for shape in ((2, 7, 3), (2, 3, 1), (1,)))
    program = Program(lambda x, y, z: after(contracted(x, y, z)), x, y, z)
    total = after(torch.from_numpy(from_left(x, y, z))).numpy()
    assert program.judge({"output": total}).finding is None
    wrong = total.copy()
    wrong.reshape(-1)[3] += 1e-2
    found = program.judge({"output": wrong}).finding
    assert found and found.evidence.wrong == 1


@pytest.mark.parametrize(
    ("got", "wrong"),
    [
        ([np.nan, np.nan, np.inf], False),
        ([np.inf, -np.inf, np.inf], False),
        ([np.inf, np.nan, np.inf], False),
        ([3.0, -np.inf, np.inf], True),
        ([np.inf, np.inf, np.inf], True),
        ([np.inf, -np.inf, np.nan], True),
    ],
)
def test_infinities_of_both_signs_meet_in_one_order_of_an_einsum(got: list[float], wrong: bool) -> None:
    x = torch.tensor([[[0.2, 2.5], [1.2, 0.2], [-1.8, 0.3]]])
    y, z = torch.tensor([[[-1.0], [0.5]]]), torch.tensor([torch.inf])
    program = Program(contracted, x, y, z)
    assert np.isnan(program.native["output"]).tolist() == [[True, True, False]]
    assert from_left(x, y, z).tolist() == [[np.inf, -np.inf, np.inf]]
    assert bool(program.judge({"output": np.float32([got])}).finding) is wrong


def test_an_infinity_from_a_divisor_that_rounds_to_zero_has_either_sign() -> None:
    c, d = (torch.tensor([value, 2.0], dtype=torch.bfloat16) for value in (1.4140625, 1.40625))
    program = Program(lambda c, d: 1.0 / (c * 1.43 - d * 1.43 + torch.tensor([0.0, 1.0])).bfloat16(), c, d)
    outputs = program.copy()
    assert np.isinf(outputs["output"].astype(np.float64)[0])  # both products round to the same number
    outputs["output"][0] = -outputs["output"][0]
    assert program.judge(outputs).finding is None
    outputs["output"][1] = np.inf
    assert program.judge(outputs).finding


FEW_VALUES = torch.nn.functional.softplus(torch.arange(-2.0, 3.0))


def in_order(terms: torch.Tensor) -> torch.Tensor:
    """The sum of the last axis, added up one after the other in the type of the terms."""
    total = torch.zeros_like(terms[..., 0])
    for term in terms.unbind(-1):
        total = total + term
    return total


def few_values(*shape: int) -> torch.Tensor:
    """Numbers of five different values: the additions of one to a sum of any others round alike."""
    return FEW_VALUES[torch.randint(5, shape, generator=torch.Generator().manual_seed(0))]


SUMS_OF_FEW_VALUES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]] = {
    "sum": (lambda x: x.sum(-1), in_order),
    "sum of all": (lambda x: x[0, 0].sum(), lambda x: in_order(x[0, 0])),
    "mean": (lambda x: x.mean(-1), lambda x: in_order(x) / 381),
    "pool": (lambda x: torch.nn.functional.avg_pool1d(x, 381), lambda x: in_order(x)[..., None] / 381),
    "product": (lambda x: x[0] @ x[1].T, lambda x: in_order(x[0][:, None] * x[1][None])),
}


@pytest.mark.parametrize("name", SUMS_OF_FEW_VALUES)
def test_terms_of_few_values_may_be_added_up_in_their_order(name: str) -> None:
    function, ordered = SUMS_OF_FEW_VALUES[name]
    x = few_values(4, 64, 381)
    program, total = Program(function, x), ordered(x)
    assert program.judge({"output": total.numpy()}).finding is None
    assert program.judge({"output": (total * 1.0002).numpy()}).finding


def test_sums_of_equal_sums_err_alike_too() -> None:
    x = torch.full((100, 1000), 0.1)
    program = Program(lambda x: x.sum(1).sum(), x)
    total = in_order(in_order(x))
    assert program.judge({"output": total.numpy()}).finding is None
    assert program.judge({"output": (total * 0.9998).numpy()}).finding


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x @ x.mH,
        lambda x: (x @ x.mH).sum(-1).mean(),
        lambda x: x.conj().imag.sum(-1),
        lambda x: x.conj().imag @ x.real.T,
        lambda x: torch.nn.functional.avg_pool1d(x.conj().imag, 2),
    ],
    ids=["complex product", "complex sum", "sum", "product", "pool"],
)
def test_sums_of_conjugates_have_a_noise_model(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """The imaginary part of a conjugate is a view that holds the numbers with the other sign."""
    x = torch.randn(4, 6, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    program = Program(function, x)
    assert program.shadow(2, None).reference["output"].shape == program.native["output"].shape
    assert program.judge(program.copy()).finding is None


@pytest.mark.parametrize("function", [lambda x: x.sum(0), lambda x: x.sum(-1), lambda x: x.mean(0)])
def test_a_single_number_may_be_summed_along_an_axis(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """Torch takes axis 0 and axis -1 for a tensor without axes."""
    program = Program(function, torch.tensor(0.3))
    assert program.judge({"output": np.float32(0.3)}).finding is None
    assert program.judge({"output": np.float32(0.4)}).finding
