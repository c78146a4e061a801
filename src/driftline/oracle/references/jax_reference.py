"""The reference of JAX programs: a run operation by operation, and a float64 run of the same operations.

Running the function again with 64-bit types enabled is not enough: integers would change with the floats, and every
dtype that the program names would stay small. So the program is traced once in its own types, and the trace is
evaluated with each small float replaced by float64.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from driftline.backends._jax import precision
from driftline.backends.xla import call, leaves_of, load_with_own_precision
from driftline.core.tensors import Arrays
from driftline.core.text import first_line
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.references.jax_steps import (
    MOST_OPERATIONS,
    NOISY_RUNS,
    PUSHED_RUNS,
    JaxRun,
    NoisyJaxRun,
    PushedJaxRun,
)
from driftline.programs.opened import OpenedProgram


class JaxReference:
    """Runs a JAX program operation by operation, in its own types and in float64."""

    def __init__(self, program: OpenedProgram) -> None:
        self._live, self._wide = load_with_own_precision(program)
        self._dtypes = {name: array.dtype for name, array in program.example.items()}

    def native(self, arrays: Arrays) -> Arrays:
        """Run the program operation by operation in its own dtypes."""
        import jax

        with jax.disable_jit(), numbers_as_arrays(), precision(self._wide, arrays):
            return {name: np.asarray(leaf) for name, leaf in leaves_of(call(self._live, arrays)).items()}

    def exact(self, arrays: Arrays) -> Arrays:
        """Run the traced program in float64. Raises `NoExactReference` if that is not possible."""
        return self._in_float64(arrays, [JaxRun()])[0]

    def stepped(self, arrays: Arrays) -> list[Arrays]:
        """Run the traced program in float64 with the arguments of its steps pushed as far as rounding may move them.
        Returns the outputs of each run; none if no step depends on rounding, or the program is too long."""
        exact = JaxRun()
        self._in_float64(arrays, [exact])
        steps = exact.steps
        if not steps.exact or steps.operations > MOST_OPERATIONS:
            return []
        self._in_float64(arrays, [NoisyJaxRun(steps, seed) for seed in range(NOISY_RUNS)])
        if not any(reach.any() for each in steps.reach for reach in each):
            return []
        outputs: list[Arrays] = []
        for number in range(PUSHED_RUNS):
            with contextlib.suppress(NoExactReference):  # on another path a loop may not end, or an array be too short
                outputs += self._in_float64(arrays, [PushedJaxRun(steps, number)])
        return outputs

    def _in_float64(self, arrays: Arrays, runs: Sequence[JaxRun]) -> list[Arrays]:
        import jax

        narrow = {name: array.astype(self._dtypes[name]) for name, array in arrays.items()}
        try:
            with precision(self._wide, narrow):
                trace, shapes = jax.make_jaxpr(lambda a: leaves_of(call(self._live, a)), return_shape=True)(narrow)
            with precision(True, arrays):
                # JAX flattens a dict in the order of its sorted keys
                given = [arrays[name] for name in sorted(arrays)]
                played = [evaluate(trace.jaxpr, trace.consts, given, run) for run in runs]
            names = sorted(shapes)
            return [{n: np.asarray(v) for n, v in zip(names, results, strict=True)} for results in played]
        except NoExactReference:
            raise
        except Exception as error:
            words = f"{type(error).__name__}: {first_line(str(error), 120)}"
            raise NoExactReference(f"the function has no float64 run ({words})") from error


@contextlib.contextmanager
def numbers_as_arrays() -> Iterator[None]:
    """A context in which Python numbers given to JAX loops and branches become arrays, as they do in a compiled
    program.

    Without compilation JAX passes Python numbers to loops and branches unchanged, and Python integers never overflow.
    """
    import jax

    plain = {name: getattr(jax.lax, name) for name in ("scan", "fori_loop", "cond", "switch")}

    def scan(f: Any, init: Any, *args: Any, **kwargs: Any) -> Any:
        return plain["scan"](lambda carry, x: _arrays(f(carry, x)), _arrays(init), *args, **kwargs)

    def fori_loop(lower: Any, upper: Any, body_fun: Any, init_val: Any, **kwargs: Any) -> Any:
        def body(index: Any, state: Any) -> Any:
            return _arrays(body_fun(_arrays(index), state))

        return plain["fori_loop"](lower, upper, body, _arrays(init_val), **kwargs)

    def cond(*args: Any, **kwargs: Any) -> Any:
        return plain["cond"](*_arrays(args), **_arrays(kwargs))

    def switch(*args: Any, **kwargs: Any) -> Any:
        return plain["switch"](*_arrays(args), **_arrays(kwargs))

    try:
        for function in (scan, fori_loop, cond, switch):
            setattr(jax.lax, function.__name__, function)
        yield
    finally:
        for name, function in plain.items():
            setattr(jax.lax, name, function)


def _arrays(tree: Any) -> Any:
    """Return the tree with Python numbers replaced by arrays."""
    import jax
    import jax.numpy as jnp

    return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, (bool, int, float, complex)) else leaf, tree)


def evaluate(jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any], run: JaxRun) -> list[Any]:
    """Evaluate a jaxpr in float64, operation by operation, including its inner jaxprs. `run` computes the results of
    each operation, with errors or without."""
    values: dict[Any, Any] = {}

    def read(atom: Any) -> Any:
        return lift(atom.val) if hasattr(atom, "val") else values[atom]

    for variables, given in ((jaxpr.constvars, constants), (jaxpr.invars, arguments)):
        values.update(zip(variables, map(lift, given), strict=True))
    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        higher = _HIGHER.get(equation.primitive.name)
        if higher:
            results = higher(equation, operands, run)
        else:
            results = run.compute(equation, operands, partial(_apply, equation))
        values.update(zip(equation.outvars, map(lift, results), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def lift(value: Any) -> Any:
    """Convert small floats to float64 and small complex numbers to complex128; return other values unchanged."""
    import jax
    import jax.numpy as jnp

    if jax.dtypes.issubdtype(getattr(value, "dtype", None), jax.dtypes.prng_key):
        return value
    array = jnp.asarray(value)
    wider = _wider(array.dtype)
    return array if wider == array.dtype else array.astype(wider)


def _wider(dtype: Any) -> Any:
    import jax

    if jax.dtypes.issubdtype(dtype, np.floating):
        return np.dtype(np.float64)
    return np.dtype(np.complex128) if jax.dtypes.issubdtype(dtype, np.complexfloating) else dtype


# Operations on the bits of a number: they run on the program's own small type.
_BITWISE = ("bitcast_convert_type", "nextafter")
# How a scatter combines the old and the new value; its parameters hold this as an inner program for one dtype.
_UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "scatter": lambda old, new: new,
    "scatter-add": lambda old, new: old + new,
    "scatter-sub": lambda old, new: old - new,
    "scatter-mul": lambda old, new: old * new,
}


def _apply(equation: Any, operands: list[Any]) -> Sequence[Any]:
    import jax

    primitive, parameters = equation.primitive, dict(equation.params)
    if update := _UPDATES.get(primitive.name):
        zero = np.zeros((), operands[0].dtype)
        parameters |= {"update_jaxpr": jax.make_jaxpr(update)(zero, zero).jaxpr, "update_consts": ()}
    elif any(hasattr(value, "eqns") or hasattr(value, "jaxpr") for value in parameters.values()):
        raise NoExactReference(f"{primitive.name} has an inner program that is not known here")
    if primitive.name == "reduce_precision":
        return operands
    if primitive.name in _BITWISE:
        operands = [value.astype(atom.aval.dtype) for value, atom in zip(operands, equation.invars, strict=True)]
    else:
        for key, value in parameters.items():
            if (
                key in ("new_dtype", "dtype", "preferred_element_type", "out_dtype", "accum_dtype")
                and value is not None
            ):
                parameters[key] = _wider(value)
    results = primitive.bind(*operands, **parameters)
    return results if primitive.multiple_results else [results]


def _inline(key: str) -> Callable[[Any, list[Any], JaxRun], list[Any]]:
    def inner(equation: Any, operands: list[Any], run: JaxRun) -> list[Any]:
        return _closed(equation.params[key], operands, run)

    return inner


def _closed(program: Any, operands: Sequence[Any], run: JaxRun) -> list[Any]:
    return evaluate(getattr(program, "jaxpr", program), getattr(program, "consts", ()), operands, run)


def _cond(equation: Any, operands: list[Any], run: JaxRun) -> list[Any]:
    branches = equation.params["branches"]
    return _closed(branches[int(np.clip(int(operands[0]), 0, len(branches) - 1))], operands[1:], run)


def _while(equation: Any, operands: list[Any], run: JaxRun) -> list[Any]:
    p = equation.params
    condition, rest = operands[: p["cond_nconsts"]], operands[p["cond_nconsts"] :]
    body, state = rest[: p["body_nconsts"]], rest[p["body_nconsts"] :]
    while bool(_closed(p["cond_jaxpr"], [*condition, *state], run)[0]):
        state = _closed(p["body_jaxpr"], [*body, *state], run)
    return state


def _scan(equation: Any, operands: list[Any], run: JaxRun) -> list[Any]:
    import jax.numpy as jnp

    p = equation.params
    fixed, carried = p["num_consts"], p["num_carry"]
    constants, carry, series = operands[:fixed], operands[fixed : fixed + carried], operands[fixed + carried :]
    steps: list[list[Any]] = []
    order = range(p["length"])
    for index in reversed(order) if p["reverse"] else order:
        results = _closed(p["jaxpr"], [*constants, *carry, *(values[index] for values in series)], run)
        carry = results[:carried]
        steps.append(results[carried:])
    if p["reverse"]:
        steps.reverse()
    if not steps:
        raise NoExactReference("a loop of length zero")
    return [*carry, *(jnp.stack(column) for column in zip(*steps, strict=True))]


_HIGHER: dict[str, Callable[[Any, list[Any], JaxRun], Sequence[Any]]] = {
    "jit": _inline("jaxpr"),
    "pjit": _inline("jaxpr"),
    "closed_call": _inline("call_jaxpr"),
    "core_call": _inline("call_jaxpr"),
    "checkpoint": _inline("jaxpr"),
    "remat2": _inline("jaxpr"),
    "custom_jvp_call": _inline("call_jaxpr"),
    "custom_vjp_call": _inline("call_jaxpr"),
    "cond": _cond,
    "while": _while,
    "scan": _scan,
}
