"""One operation of a shadow run, in the form that the rules of the noise model read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.noise import Products


def schema_argument(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """Return the argument called `name` in the operator's schema, whether passed by position or name, or its
    default."""
    if name in kwargs:
        return kwargs[name]
    for position, argument in enumerate(target._schema.arguments):
        if argument.name == name:
            return args[position] if position < len(args) else argument.default_value
    return None


@dataclass(frozen=True)
class Call:
    """An operation with its float64 arguments and results. `dtypes` are the types in which the program stores the
    results, `None` for results that are not floats."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[Any, ...]
    dtypes: tuple[str | None, ...]
    arithmetic: Arithmetic
    terms: float = 0.0  # number of terms of the whole sum that this operation is part of, if its order is open
    products: Products | None = None  # if it is a sum of products to which something may be added next

    def argument(self, name: str) -> Any:
        return schema_argument(self.target, self.args, self.kwargs, name)

    def unit(self, index: int = 0) -> float:
        dtype = self.dtypes[index]
        return self.arithmetic.unit(dtype) if dtype else 0.0

    def accumulator(self, index: int = 0) -> float:
        dtype = self.dtypes[index]
        return self.arithmetic.accumulator(dtype) if dtype else 0.0

    def largest_sum(self, index: int = 0) -> float:
        dtype = self.dtypes[index]
        return self.arithmetic.largest_sum(dtype) if dtype else np.inf

    def accumulating(self, index: int = 0) -> str | None:
        """Return the type of partial sums, or `None` if the result is not a float."""
        dtype = self.dtypes[index]
        return self.arithmetic.accumulating(dtype) if dtype else None

    def product(self, index: int = 0) -> float:
        dtype = self.dtypes[index]
        return self.arithmetic.product(dtype) if dtype else 0.0
