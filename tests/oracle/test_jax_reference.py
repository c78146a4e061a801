"""JAX programs mean the same one operation after another as compiled: Python's numbers are arrays in loops and branches
too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from driftline.oracle.references.jax_reference import numbers_as_arrays  # noqa: E402


def grown(state: Any) -> Any:
    """More than 32 bits hold, after a few times; Python's integers hold it."""
    return state * 70000 // 3


PROGRAMS = {
    "fori_loop": lambda: jax.lax.fori_loop(0, 3, lambda i, state: grown(state), 7) % 17,
    "its index": lambda: jax.lax.fori_loop(70000, 70003, lambda i, state: state + i * i // 3 % 17, 0),
    "scan": lambda: jax.lax.scan(lambda carry, _: (grown(carry), carry % 17), 7, length=4),
    "a scan whose body returns a number": lambda: jax.lax.scan(lambda carry, _: (70000, carry * carry), 1, length=3),
    "cond": lambda: jax.lax.cond(True, lambda state: grown(grown(state)) % 17, lambda state: state, 7),
    "switch": lambda: jax.lax.switch(5, [abs, lambda state: grown(grown(state)) % 17], 7),
    "while_loop": lambda: jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, grown(s[1])), (0, 7)),
    "floats": lambda: jax.lax.fori_loop(0, 50, lambda i, state: state * 1.1, 1.0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_of_python(name: str) -> None:
    program = PROGRAMS[name]
    with jax.disable_jit(), numbers_as_arrays():
        found = jax.tree.leaves(program())
    for mine, compiled in zip(found, jax.tree.leaves(jax.jit(program)()), strict=True):
        assert np.asarray(mine).dtype == compiled.dtype
        np.testing.assert_allclose(mine, compiled, rtol=1e-5 if name == "floats" else 0)


def test_nothing_stays_changed() -> None:
    before = jax.lax.scan
    with pytest.raises(ZeroDivisionError), numbers_as_arrays():
        assert jax.lax.scan is not before
        raise ZeroDivisionError
    assert jax.lax.scan is before
