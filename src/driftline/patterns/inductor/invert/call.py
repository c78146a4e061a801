"""One operator of the pattern while its arguments are chosen, one after another.

A family (`families/`) knows how an operator's arguments fit together; all other arguments are chosen by their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch._inductor.pattern_matcher as pm
import torch.fx as fx

from driftline.patterns.inductor.invert import holes
from driftline.patterns.inductor.invert.bench import Bench, value_of
from driftline.patterns.inductor.invert.lifting import is_private
from driftline.patterns.inductor.invert.parameters import Parameter, name_of, parameters_of
from driftline.patterns.inductor.invert.targets import MIXED, target_parts
from driftline.patterns.inductor.invert.wish import NotBuilt, Wish

if TYPE_CHECKING:
    from driftline.patterns.inductor.invert.inverter import Inverter

_OPEN = object()  # an argument that the pattern does not mention


class PatternCall:
    """An operator with the pattern parts of its arguments (`given`) and the values chosen so far (`found`)."""

    def __init__(self, inverter: Inverter, part: Any, target: Any, wish: Wish) -> None:
        self.inverter, self.part, self.target, self.wish = inverter, part, target, wish
        self.bench, self.sizes = inverter.bench, inverter.sizes
        self.name = name_of(target)
        self.parameters = parameters_of(target)
        args = part.args if isinstance(part, pm._TargetArgsExpr) else ()
        self.given: dict[str, Any] = {p.name: a for p, a in zip(self.parameters, args, strict=False)}
        self.positional = len(args)
        self.given.update(part.kwargs if isinstance(part, pm._TargetArgsExpr) else {})
        self.given.update(inverter.handed_down(self.name))
        self.found: dict[str, Any] = {}

    def mentions(self, name: str) -> bool:
        return name in self.given

    @property
    def free(self) -> bool:
        """True if the pattern says nothing about the arguments."""
        return not isinstance(self.part, pm._TargetArgsExpr)

    def is_pattern(self, name: str) -> bool:
        return isinstance(self.given.get(name), pm._TargetExpr)

    def hole(self, name: str) -> str:
        """Return the name of the hole in the pattern for this argument; an empty string if it is not a named hole."""
        return str(getattr(self.given.get(name), "name", ""))

    def freedom(self, name: str) -> int:
        """Return how freely the argument can be chosen: 0 if rules make it, 1 for other pattern parts, 2 or 3 for
        holes."""
        if not self.is_pattern(name):
            return 3 if self.hole(name) == "other" else 2
        return 0 if any(is_private(inner.fns[0]) for inner in target_parts(self.given[name])) else 1

    @property
    def takes_numbers(self) -> bool:
        """True if the operator accepts a number where its schema says tensor."""
        return self.name in MIXED and isinstance(self.target, torch._ops.OpOverload)

    def tensor(self, name: str, wish: Wish) -> torch.Tensor:
        """Find a tensor argument. Its value may differ from the wish if the pattern itself makes it."""
        return value_of(self._settle(name, lambda: self._leaf(name, wish), wish))

    def maybe(self, name: str, wish: Wish) -> torch.Tensor | None:
        """Find a tensor argument that may also be omitted (None)."""
        part = self.given.get(name, _OPEN)
        if part is _OPEN or (_is_hole(part) and self.bench.choose(False, True)):
            self.value(name, None)
            return None
        return self.tensor(name, wish)

    def tensors(self, name: str, wishes: list[Wish]) -> list[Any]:
        return [value_of(node) for node in self._settle(name, lambda: [self.inverter.leaf(w) for w in wishes], wishes)]

    def value(self, name: str, *options: Any) -> Any:
        """Find an argument that is not a tensor. The pattern's own value, or the value that a hole already has, takes
        precedence over `options`."""
        return self._settle(name, lambda: self.bench.choose(*options), self.wish)

    def _settle(self, name: str, make: Callable[[], Any], wish: Any) -> Any:
        if name not in self.found:
            part = self.given.get(name, _OPEN)
            self.found[name] = make() if part is _OPEN else self.inverter.argument(part, make, wish)
        return self.found[name]

    def _leaf(self, name: str, wish: Wish) -> fx.Node:
        part = self.given.get(name)
        if isinstance(part, pm.KeywordArg) and part.name in holes.DEQUANTISED:
            return dequantised(self.bench, self.inverter.leaf(wish.typed(torch.uint8)))
        return self.inverter.leaf(self._named(name, wish))

    def _named(self, name: str, wish: Wish) -> Wish:
        """Return the wish with the dtype that the name of the hole suggests."""
        part = self.given.get(name)
        dtype = holes.DTYPES.get(part.name) if isinstance(part, pm.KeywordArg) else None
        return wish.typed(dtype) if dtype else wish

    def known(self) -> Iterator[torch.Tensor]:
        for found in self.found.values():
            for item in found if isinstance(found, list) else [found]:
                if isinstance(item, fx.Node) and isinstance(item.meta["val"], torch.Tensor):
                    yield item.meta["val"]

    def node(self) -> fx.Node:
        """Create the finished call, written as in the pattern."""
        for parameter in self.parameters:
            if parameter.name not in self.found and (self.mentions(parameter.name) or parameter.required):
                self._settle(parameter.name, partial(self._by_kind, parameter), self.wish)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for at, parameter in enumerate(self.parameters):
            if parameter.name not in self.found or (not self.mentions(parameter.name) and self._idle(parameter)):
                continue
            value = self.found[parameter.name]
            if at < self.positional or (self._goes_first(parameter) and len(args) == at):
                args.append(value)
            else:
                kwargs[parameter.name] = value
        return self.bench.call(self.part.op, self.target, args, kwargs)

    def _goes_first(self, parameter: Parameter) -> bool:
        """True if the argument is passed by position because it is required and the pattern does not mention it."""
        return parameter.required and not parameter.keyword and not self.mentions(parameter.name)

    def _idle(self, parameter: Parameter) -> bool:
        """True if the argument is optional, and None was chosen, so that it can be omitted."""
        return not parameter.required and self.found[parameter.name] is None

    def _by_kind(self, parameter: Parameter) -> Any:
        part = self.given.get(parameter.name)
        if isinstance(part, pm.KeywordArg) and part.name in holes.VALUES:
            return self.bench.choose(*holes.VALUES[part.name])
        if parameter.kind == "tensor":
            if parameter.optional and self.bench.choose(True, False):
                return None
            like = next(self.known(), None)
            wish = self.wish if like is None else Wish(tuple(like.shape), like.dtype)
            return self.inverter.leaf(self._named(parameter.name, wish))
        if parameter.kind in holes.KINDS:
            return self.bench.choose(*holes.KINDS[parameter.kind])
        if parameter.optional:
            return None
        raise NotBuilt(f"nothing is known to put in for {parameter.name} of {self.name}")


def dequantised(bench: Bench, node: fx.Node) -> fx.Node:
    """Return a node that dequantises the bytes of `node`."""
    overload = torch.ops.quantized_decomposed.dequantize_per_tensor.default
    return bench.call("call_function", overload, (node, 0.05, 2, 0, 255, torch.uint8), {})


def _is_hole(part: Any) -> bool:
    return isinstance(part, (pm.Arg, pm.KeywordArg, pm.ExclusiveKeywordArg, pm.Ignored))
