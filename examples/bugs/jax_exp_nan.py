"""The float64 exponential of NaN is NaN.

jaxlib 0.6.2 brought a new vectorised exponential that forgot NaN: under `jit` it returns a tiny number. Operation by
operation, and in later releases, it is right.
Compiler: XLA on the CPU, jax 0.6.2. Reported: https://github.com/jax-ml/jax/issues/29537
"""

import jax.numpy as jnp
import numpy as np


def poisoned_exponential(x):
    return jnp.exp(jnp.nan * x)


def program():
    return poisoned_exponential, (np.array([0.5, -2.0, 30.0], dtype=np.float64),)
