"""Idioms of matrix products with scales, biases, transposes and activations around them."""

from __future__ import annotations

from driftline.generate.idioms.convolution import activated, normalised
from driftline.generate.idioms.sketch import Sketch, idiom


@idiom
def matmul_add(s: Sketch) -> str:
    return str(s.node("Add", *s.either(s.node("MatMul", s.input(3, 4), s.weights(4, 5)), s.weights(5))))


@idiom
def matmul_add_batched(s: Sketch) -> str:
    return str(s.node("Add", s.node("MatMul", s.input(2, 3, 4), s.weights(4, 5)), s.weights(5)))


@idiom
def matmul_batch_norm(s: Sketch) -> str:
    return normalised(s, s.node("MatMul", s.input(3, 4), s.weights(4, 5)), 5)


@idiom
def matmul_reshape_batch_norm(s: Sketch) -> str:
    made = s.node("MatMul", s.input(3, 4), s.weights(4, 5))
    return normalised(s, s.node("Reshape", made, s.ints(3, 5)), 5)


@idiom
def matmul_scaled(s: Sketch) -> str:
    left = s.node(s.rng.choice(["Mul", "Div"]), s.input(2, 3, 4), s.const(0.5))
    return str(s.node("Mul", s.node("MatMul", left, s.input(2, 4, 5)), s.const(3.0)))


@idiom
def matmul_divided(s: Sketch) -> str:
    return str(s.node("Div", s.node("MatMul", s.input(3, 4), s.input(4, 5)), s.const(8.0)))


@idiom
def matmul_transposed(s: Sketch) -> str:
    return str(s.node("MatMul", s.node("Transpose", s.input(4, 3), perm=[1, 0]), s.input(4, 5)))


@idiom
def matmul_transposed_batched(s: Sketch) -> str:
    left = s.node("Transpose", s.input(2, 4, 3), perm=[0, 2, 1])
    right = s.node("Transpose", s.input(2, 5, 4), perm=[0, 2, 1])
    return str(s.node("MatMul", left, right))


@idiom
def matmul_batch_transposed(s: Sketch) -> str:
    """Draw a product whose operands have their batch axis transposed too."""
    left = s.node("Transpose", s.input(3, 2, 4), perm=[1, 0, 2])
    right = s.node("Transpose", s.input(4, 2, 5), perm=[1, 0, 2])
    return str(s.node("MatMul", left, right))


@idiom
def matmul_transposed_cast(s: Sketch) -> str:
    turned = s.node("Transpose", s.input(2, 4, 3, dtype="float16"), perm=[0, 2, 1])
    return str(s.node("MatMul", s.writer.cast(turned, "float32"), s.input(2, 4, 5)))


@idiom
def matmul_transposed_scaled(s: Sketch) -> str:
    left = s.node("Transpose", s.node("Mul", s.input(2, 4, 3), s.const(2.0)), perm=[0, 2, 1])
    return str(s.node("MatMul", left, s.input(2, 4, 5)))


@idiom
def matmul_activation(s: Sketch) -> str:
    return activated(s, s.node("MatMul", s.input(3, 4), s.weights(4, 5)))


@idiom
def gemm_activation(s: Sketch) -> str:
    return activated(s, s.node("Gemm", s.input(3, 4), s.weights(4, 5), s.weights(5)))


@idiom
def gemm_transposed_operands(s: Sketch) -> str:
    left = s.node("Transpose", s.input(4, 3), perm=[1, 0])
    right = s.node("Transpose", s.input(5, 4), perm=[1, 0])
    return str(s.node("Gemm", left, right, s.weights(3, 5), alpha=0.5, beta=2.0))


@idiom
def gemm_transposed(s: Sketch) -> str:
    return str(s.node("Transpose", s.node("Gemm", s.input(3, 4), s.input(4, 5)), perm=[1, 0]))


@idiom
def gemm_sum(s: Sketch) -> str:
    return str(s.node("Sum", *s.either(s.node("Gemm", s.input(3, 4), s.weights(4, 5)), s.input(3, 5))))


@idiom
def gemm_batch_norm(s: Sketch) -> str:
    return normalised(s, s.node("Gemm", s.input(3, 4), s.weights(4, 5), s.weights(5)), 5)


@idiom
def gemm_two(s: Sketch) -> str:
    hidden = activated(s, s.node("Gemm", s.input(3, 4), s.weights(4, 8), s.weights(8)), "Relu")
    return str(s.node("Gemm", hidden, s.weights(2, 8), s.weights(2), transB=1))


@idiom
def matmul_expanded(s: Sketch) -> str:
    """Draw explicit broadcasts before a product that broadcasts on its own."""
    wide = s.node("Expand", s.input(1, 3, 4), s.ints(2, 3, 4))
    return str(s.node("MatMul", wide, s.node("Expand", s.input(4, 5), s.ints(2, 4, 5))))


@idiom
def matmul_reshaped(s: Sketch) -> str:
    left = s.node("Reshape", s.input(2, 3, 4), s.ints(2, 3, 4))
    right = s.node("Reshape", s.input(2, 4, 5), s.ints(2, 4, 5))
    return str(s.node("Reshape", s.node("MatMul", left, right), s.ints(2, 3, 5)))


@idiom
def matmul_transposed_add(s: Sketch) -> str:
    """Draw a product of two transposed operands, with a bias."""
    left = s.node("Transpose", s.input(4, 3), perm=[1, 0])
    right = s.node("Transpose", s.input(5, 4), perm=[1, 0])
    return str(s.node("Add", s.node("MatMul", left, right), s.weights(5)))


@idiom
def matmul_left_transposed_add(s: Sketch) -> str:
    left = s.node("Transpose", s.input(4, 3), perm=[1, 0])
    return str(s.node("Add", s.node("MatMul", left, s.input(4, 5)), s.input(5)))


@idiom
def matmul_right_transposed_add(s: Sketch) -> str:
    right = s.node("Transpose", s.input(5, 4), perm=[1, 0])
    return str(s.node("Add", s.node("MatMul", s.input(3, 4), right), s.input(5)))


@idiom
def gemm_reshaped(s: Sketch) -> str:
    flat = s.node("Reshape", s.input(2, 3, 4), s.ints(6, 4))
    return str(s.node("Reshape", s.node("Gemm", flat, s.weights(4, 5), s.weights(5)), s.ints(2, 3, 5)))


@idiom
def matmul_reshaped_once(s: Sketch) -> str:
    left = s.node("Reshape", s.input(2, 3, 4), s.ints(6, 4))
    return str(s.node("Reshape", s.node("MatMul", left, s.weights(4, 5)), s.ints(2, 3, 5)))


@idiom
def gemm_zero_bias(s: Sketch) -> str:
    return str(s.node("Gemm", s.input(3, 4), s.weights(4, 5), s.const([0.0] * 5)))


@idiom
def matmul_chain(s: Sketch) -> str:
    """Draw a chain of products that is cheaper if the last product is computed first."""
    return str(s.node("MatMul", s.node("MatMul", s.input(6, 2), s.input(2, 6)), s.input(6, 1)))


@idiom
def matmul_parallel(s: Sketch) -> list[str]:
    """Draw three products of one operand, which could be computed as one."""
    x = s.input(2, 3, 4)
    return [s.node("MatMul", x, s.weights(4, size)) for size in (5, 5, 2)]


@idiom
def matmul_of_sum(s: Sketch) -> str:
    return str(s.node("MatMul", s.input(3, 4), s.node("Add", s.input(4, 5), s.input(4, 5))))


@idiom
def matmul_low_rank(s: Sketch) -> str:
    """Draw a product with a matrix plus a low-rank product."""
    thin = s.node("MatMul", s.input(4, 1), s.input(1, 5))
    return str(s.node("MatMul", s.input(3, 4), s.node("Add", s.input(4, 5), thin)))


@idiom
def matmul_joined_transposed(s: Sketch) -> str:
    parts = [s.node("Transpose", s.input(size, 4), perm=[1, 0]) for size in (5, 2)]
    return str(s.node("MatMul", s.input(3, 4), s.node("Concat", *parts, axis=1)))


@idiom
def matmul_gathered(s: Sketch) -> str:
    """Draw a product with selected columns of the weights."""
    columns = s.node("Gather", s.weights(4, 5), s.input(3, dtype="int64", values="index:5"), axis=1)
    return str(s.node("MatMul", s.input(3, 4), columns))
