"""Walks over a pattern and turns its parts into nodes. Wishes for tensors are passed down, and nodes are returned
up."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch._inductor.pattern_matcher as pm
import torch.fx as fx

from driftline.backends.inductor_rules.registry import Registered
from driftline.patterns.inductor.invert.bench import Bench
from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families import fit
from driftline.patterns.inductor.invert.families.modules import module_call
from driftline.patterns.inductor.invert.holes import main_dtype
from driftline.patterns.inductor.invert.lifting import is_private, producers
from driftline.patterns.inductor.invert.sizes import DrawnSizes
from driftline.patterns.inductor.invert.targets import target_of, target_parts
from driftline.patterns.inductor.invert.wish import NotBuilt, Wish

# What packed operators work on, in the operators that are packed.
_ACTIVATIONS = {"mm": "self", "addmm": "mat1", "convolution": "input"}


class Inverter:
    """Builds a program that contains the pattern of one rule."""

    def __init__(self, registered: Registered, attempt: int) -> None:
        rule = registered.rule
        self.registered = registered
        self.bench = Bench(rule.id, attempt, main_dtype(rule.text))
        self.sizes = DrawnSizes.chosen(self.bench)
        self.freezing = dict(rule.needs).get("freezing") == "true"
        self.producers: list[str] = []
        self.position = 0  # in the list that is being made
        self._made: dict[int, fx.Node] = {}  # parts that stand in several places are one node
        self._holes: dict[Any, Any] = {}
        self._scope = 0
        self._choices: dict[str, Any] = {}
        self._activation: Any = None

    def leaf(self, wish: Wish) -> fx.Node:
        shape = wish.shape if wish.shape is not None else self.sizes.matrix
        node = self.bench.leaf(Wish(shape, wish.dtype, wish.constant and self.freezing, wish.fill))
        return self.bench.call("call_function", torch.ops.aten.neg.default, (node,), {}) if wish.computed else node

    def parameter(self, shape: tuple[int, ...], fill: str = "normal") -> fx.Node:
        """Add a tensor that the module owns, whatever the options."""
        return self.bench.leaf(Wish(shape, constant=True, fill=fill))

    def shared(self, name: str, value: Any) -> Any:
        """Return a choice that all operators of the program share. The first `value` given for a name is kept."""
        if self._choices.get(name) is None:
            self._choices[name] = value
        return self._choices[name]

    def dims(self, count: int) -> list[int]:
        """Return the dimensions to choose from, usually the one that the whole program shares."""
        main = self.shared("dim", self.bench.choose(1, 0, count - 1))
        return [main] if main < count and self.bench.choose(True, True, False) else list(range(count))

    @property
    def transposed(self) -> bool:
        """True if the rule's convolutions are transposed."""
        return "_convolution_transpose" in self.registered.rule.text

    def part(self, part: Any, wish: Wish) -> Any:
        """Return a node for a part of the pattern, or a list of nodes if it stands for several."""
        if isinstance(part, pm.MultiOutputPattern):
            return [self.part(output, wish) for output in part.outputs if output is not None]
        if isinstance(part, pm.RepeatedExpr):
            return self._several(part.inner_pattern, [wish] * self.sizes.parts)
        if not isinstance(part, pm._TargetExpr):
            raise NotBuilt(f"a {type(part).__name__} cannot be built")
        if id(part) not in self._made:
            node = self._target(part, wish)
            node.meta["pattern"] = part
            self._made[id(part)] = node
        return self._made[id(part)]

    def argument(self, part: Any, make: Callable[[], Any], wish: Any) -> Any:
        """Return the value for an argument of the pattern. `make` creates the value of a hole."""
        if isinstance(part, pm.ListOf):
            wishes = wish if isinstance(wish, list) else [wish] * self.sizes.parts
            return self._several(part.pattern, wishes)
        if isinstance(part, pm.Ignored):
            return make()
        if isinstance(part, (pm.KeywordArg, pm.ExclusiveKeywordArg, pm.Arg)):
            key = (self._scope, getattr(part, "name", id(part)))
            if key not in self._holes:
                self._holes[key] = make()
            return self._holes[key]
        if isinstance(part, pm.PatternExpr):
            return self.part(part, wish[0] if isinstance(wish, list) else wish)
        if isinstance(part, (list, tuple)) and any(isinstance(item, pm.PatternExpr) for item in part):
            wishes = wish if isinstance(wish, list) else [wish] * len(part)
            return [
                self.argument(item, partial(self.leaf, one), one)
                for item, one in zip(part, wishes * len(part), strict=False)
            ]
        return part

    def _several(self, part: Any, wishes: list[Wish]) -> list[Any]:
        """Return one node for each wish. Only parts that may have many users are shared between them."""
        found = []
        before = self.position
        for self.position, wish in enumerate(wishes):
            kept = dict(self._made)
            found.append(self.part(part, wish) if isinstance(part, pm.PatternExpr) else part)
            shared = {id(inner) for inner in target_parts(part) if inner is not part and _is_shared(inner)}
            self._made = {key: node for key, node in self._made.items() if key in kept or key in shared}
            self._holes = {key: value for key, value in self._holes.items() if isinstance(key[1], str)}
        self.position = before
        return found

    def _target(self, part: Any, wish: Wish) -> fx.Node:
        if isinstance(part, (pm.CallModule, pm.CallModuleVarArgs)):
            return module_call(self, part)
        target = target_of(part)
        makers = producers(target, self.registered)
        if makers:
            return self._lifted(part, makers, wish)
        if is_private(target):
            raise NotBuilt(f"{target} is made by no rule, and no user writes it")
        call = PatternCall(self, part, target, wish)
        fit(call)
        return call.node()

    def handed_down(self, name: str) -> dict[str, Any]:
        """Return the activation that a lifted operator was to read, as an argument for the operator written in its
        place."""
        if self._activation is None or name not in _ACTIVATIONS:
            return {}
        given, self._activation = {_ACTIVATIONS[name]: self._activation}, None
        return given

    def _lifted(self, part: Any, makers: list[Registered], wish: Wish) -> fx.Node:
        """Build an operator that only rules insert by building the pattern that such a rule replaces."""
        maker = self.bench.choose(*makers)
        self.producers.append(maker.rule.id)
        outer, self._scope = self._scope, len(self.producers)
        if isinstance(part, pm._TargetArgsExpr) and isinstance(part.args[0], pm._TargetExpr):
            self._activation = part.args[0]
        node = self.part(maker.entry.pattern, wish)
        self._scope = outer
        if not isinstance(node, fx.Node):
            raise NotBuilt("what makes the operator has several outputs")
        return node


def _is_shared(part: Any) -> bool:
    """True if the part is one node for all items of a list: it may have many users and does not itself pick an item."""
    return part.has_multiple_users() and all(operator.getitem not in inner.fns for inner in target_parts(part))
