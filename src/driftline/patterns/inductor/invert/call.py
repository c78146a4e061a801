"""One operator of the pattern while its arguments are being found, one after another.

A family (`families/`) says how an operator's arguments fit together; what it leaves open is chosen by kind.
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
    """An operator with the parts of the pattern for its arguments (`given`) and the values found so far (`found`)."""

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
        """Does the pattern say nothing about the arguments?"""
        return not isinstance(self.part, pm._TargetArgsExpr)

    def is_pattern(self, name: str) -> bool:
        return isinstance(self.given.get(name), pm._TargetExpr)

    def hole(self, name: str) -> str:
        """What the rule calls the hole in this place; nothing when it is none or has no name."""
        return str(getattr(self.given.get(name), "name", ""))

    def freedom(self, name: str) -> int:
        """How free the argument is: what rules make comes as it comes, other parts follow wishes, holes take all."""
        if not self.is_pattern(name):
            return 3 if self.hole(name) == "other" else 2
        return 0 if any(is_private(inner.fns[0]) for inner in target_parts(self.given[name])) else 1

    @property
    def takes_numbers(self) -> bool:
        """Does the operator take a number where its schema says tensor?"""
        return self.name in MIXED and isinstance(self.target, torch._ops.OpOverload)

    def tensor(self, name: str, wish: Wish) -> torch.Tensor:
        """Find a tensor argument; the value may differ from the wish when the pattern itself makes it."""
        return value_of(self._settle(name, lambda: self._leaf(name, wish), wish))

    def maybe(self, name: str, wish: Wish) -> torch.Tensor | None:
        """A tensor that may also be left out."""
        part = self.given.get(name, _OPEN)
        if part is _OPEN or (_is_hole(part) and self.bench.choose(False, True)):
            self.value(name, None)
            return None
        return self.tensor(name, wish)

    def tensors(self, name: str, wishes: list[Wish]) -> list[Any]:
        return [value_of(node) for node in self._settle(name, lambda: [self.inverter.leaf(w) for w in wishes], wishes)]

    def value(self, name: str, *options: Any) -> Any:
        """Find an argument that is no tensor. The pattern's own value, or what a hole holds already, comes first."""
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
        """Names of holes tell what the rule's author had in mind."""
        part = self.given.get(name)
        dtype = holes.DTYPES.get(part.name) if isinstance(part, pm.KeywordArg) else None
        return wish.typed(dtype) if dtype else wish

    def known(self) -> Iterator[torch.Tensor]:
        for found in self.found.values():
            for item in found if isinstance(found, list) else [found]:
                if isinstance(item, fx.Node) and isinstance(item.meta["val"], torch.Tensor):
                    yield item.meta["val"]

    def node(self) -> fx.Node:
        """The finished call, written as the pattern writes it."""
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
        """By position, as people write what must be there; unless the pattern has it by name."""
        return parameter.required and not parameter.keyword and not self.mentions(parameter.name)

    def _idle(self, parameter: Parameter) -> bool:
        """Not asked for by the pattern, and nothing special: better left out."""
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
    """The numbers that bytes stand for."""
    overload = torch.ops.quantized_decomposed.dequantize_per_tensor.default
    return bench.call("call_function", overload, (node, 0.05, 2, 0, 255, torch.uint8), {})


def _is_hole(part: Any) -> bool:
    return isinstance(part, (pm.Arg, pm.KeywordArg, pm.ExclusiveKeywordArg, pm.Ignored))
