"""Integer and boolean arithmetic, wrap-around, and type promotion."""

import torch


def int8_addition_wraps_around():
    a = torch.tensor([127, -128, 100, -100, 64], dtype=torch.int8)
    b = torch.tensor([1, -1, 100, -100, 64], dtype=torch.int8)
    return (lambda x, y: (x + y, x - y, x * y)), (a, b)


def int32_multiplication_hash_wraps():
    def fmix(h):
        h = h ^ (h >> 16)
        h = h * -2048144789
        h = h ^ (h >> 13)
        h = h * -1028477387
        return h ^ (h >> 16)

    return fmix, (torch.arange(-5, 12, dtype=torch.int32) * 7919,)


def linear_congruential_generator_in_int64():
    def lcg(state):
        out = []
        for _ in range(5):
            state = state * 6364136223846793005 + 1442695040888963407
            out.append((state >> 33) & 0x7FFFFFFF)
        return torch.stack(out)

    return lcg, (torch.tensor([1, 2, 3, -7]),)


def floor_division_of_negative_integers():
    def f(a, b):
        return a // b, torch.div(a, b, rounding_mode="trunc"), torch.div(a, b, rounding_mode="floor"), a / b

    return f, (torch.tensor([7, -7, 7, -7, 0, -1]), torch.tensor([2, 2, -2, -2, 5, 3]))


def remainder_and_fmod_signs():
    def f(a, b):
        return a % b, torch.remainder(a, b), torch.fmod(a, b)

    return f, (torch.tensor([5, -5, 5, -5, 6, -6]), torch.tensor([3, 3, -3, -3, 3, -3]))


def shifts_and_masks_of_bytes():
    def f(x):
        return x << 1, x >> 3, x & 0x0F, x | 0x80, x ^ 0xFF, ~x

    return f, (torch.tensor([0, 1, 2, 127, 128, 200, 255], dtype=torch.uint8),)


def arithmetic_right_shift_of_negatives():
    return (lambda x: (x >> 1, x >> 4, x << 2)), (torch.tensor([-1, -2, -17, 17, -1024], dtype=torch.int32),)


def bool_arithmetic_and_logic():
    def f(p, q):
        return p & q, p | q, p ^ q, ~p, p + q, p * q, torch.logical_xor(p, q), p.sum(), p.float().mean()

    return f, (torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False]))


def promotion_between_integer_widths_and_floats():
    def f(a, b, c, d):
        return a + b, b * c, c + d, a / b, b + 1.5, a + True, torch.result_type(a, d) == torch.float16

    return f, (
        torch.tensor([1, 200], dtype=torch.uint8),
        torch.tensor([-3, 100], dtype=torch.int8),
        torch.tensor([70000, -5], dtype=torch.int32),
        torch.tensor([0.5, 2.0], dtype=torch.float16),
    )


def zero_dim_tensor_does_not_promote_within_category():
    def f(v, s, z):
        return v + s, v * z, torch.ones(2, dtype=torch.int16) + torch.tensor(5)

    return f, (torch.tensor([1.0, 2.0]), torch.tensor(3.0, dtype=torch.float64), torch.tensor(7))


def casting_floats_to_integers_truncates():
    def f(x):
        return x.to(torch.int32), x.long(), x.to(torch.int8), x.to(torch.bool)

    return f, (torch.tensor([1.9, -1.9, 0.5, -0.5, 100.99, 0.0]),)


def gcd_lcm_and_integer_powers():
    def f(a, b):
        return torch.gcd(a, b), torch.lcm(a, b), a**2, torch.pow(a, b.clamp(0, 3))

    return f, (torch.tensor([12, -18, 7, 0, 100]), torch.tensor([8, 12, 21, 5, 75]))


def cumulative_sum_and_product_of_small_integers():
    def f(x):
        return x.sum(), x.cumsum(0), x.cumprod(0), x.sum(dtype=torch.int8), x.prod()

    return f, (torch.tensor([100, 27, 3, -5, 90], dtype=torch.int8),)


def popcount_by_bit_twiddling():
    def popcount(x):
        x = x - ((x >> 1) & 0x55555555)
        x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
        x = (x + (x >> 4)) & 0x0F0F0F0F
        return (x * 0x01010101 & 0xFFFFFFFF) >> 24

    return popcount, (torch.tensor([0, 1, 3, 255, 65535, 4294967295, 123456789]),)


def comparison_across_signed_and_unsigned():
    def f(a, b):
        return a < b, a == b, torch.maximum(a, b), torch.where(a > b, a, b)

    return f, (torch.tensor([200, 5, 0], dtype=torch.uint8), torch.tensor([-56, 5, -1], dtype=torch.int8))
