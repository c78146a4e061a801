"""A JAX function of two layers, for the XLA target."""

import jax
import jax.numpy as jnp
import numpy as np


def program(dtype):
    rng = np.random.default_rng(5)
    first = rng.standard_normal((16, 32)).astype(dtype) / 4
    second = rng.standard_normal((32, 5)).astype(dtype) / 4

    def mlp(x):
        hidden = jax.nn.gelu(jnp.dot(x, first))
        return jax.nn.softmax(jnp.dot(hidden, second), axis=-1)

    return mlp, (rng.standard_normal((4, 16)).astype(dtype),)


def float32():
    return program(np.float32)


def float64():
    return program(np.float64)


def float16():
    return program(np.float16)


def bfloat16():
    return program(jnp.bfloat16)
