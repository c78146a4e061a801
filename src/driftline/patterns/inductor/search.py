"""Turn a replacement rule's own search function into a program as a user would write it.

The function is called once with tensors that have no data, and every torch call that it makes becomes a line. Calls are
recorded as written, not decomposed: `q @ k.transpose(-2, -1)`, not its matrix products.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.fx as fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from driftline.backends.inductor_rules.registry import Registered
from driftline.patterns.inductor.draft import Draft, DraftLeaf
from driftline.patterns.inductor.placing import placing

_LARGEST = 16  # patterns do not depend on sizes; programs that are run should be small
_OPERATORS = {
    f"__{name}__": getattr(operator, f"{name}_" if name in ("and", "or") else name)
    for name in "add sub mul truediv matmul floordiv mod pow and or xor lt le gt ge eq ne neg getitem".split()
}


@dataclass(frozen=True)
class _Setting:
    """How the search function is called. The pattern is the same for all settings, but the conditions of a rule
    differ."""

    zero_dims_are_numbers: bool = True  # conditions ask for a Python number where the example is a tensor
    weights: str = "inputs"  # or owned: folded when the graph is frozen; or int8: and stored in eight bits
    halves: torch.dtype | None = None  # in place of float16
    layout: str = "plain"
    flat: bool = False  # biases with one dimension, though the example has two
    fitting: bool = False  # lengths that fit the tensors, in place of the numbers that mark where they went
    spelling: str = "calls"  # or attention: as the function that is made of it; or overloads: operators as they are
    needs: Mapping[str, str] = field(default_factory=dict)


def draft_of(registered: Registered, attempt: int = 0) -> Draft:
    """Return the search function of a replacement rule as a draft. Attempts differ in the arguments."""
    if registered.search is None:
        raise ValueError(f"{registered.rule.name} was not registered with a search function")
    settings = _settings(registered)
    setting = settings[attempt % len(settings)]
    search, examples = registered.search, registered.examples
    if setting.spelling == "attention":
        search, examples = _attention, _narrow_values(examples)
    record = _CallRecorder(setting, training=registered.training)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), placing():
        arguments = _arguments(registered, examples, record)
        with record:
            result = search(**arguments)
        record.graph.output(tree_map_only(torch.Tensor, record.node_of, result))
    return Draft(
        record.graph,
        record.inputs,
        record.owned,
        tuple(sorted({**dict(registered.rule.needs), **setting.needs}.items())),
        training=registered.training,
        user_level=setting.spelling != "overloads",
    )


def _settings(registered: Registered) -> list[_Setting]:
    """Return the settings to try, the most likely to fire first."""
    if "freezing" in dict(registered.rule.needs):
        concatenated = {"concat_linear": "true"}
        settings = [_Setting(weights=weights, needs=concatenated) for weights in ("owned", "int8")]
        return [*settings, replace(settings[0], flat=True)]
    plain = _Setting()
    settings = [
        plain,
        replace(plain, zero_dims_are_numbers=False),
        replace(plain, layout="swapped"),
        replace(plain, fitting=True),
        replace(plain, halves=torch.bfloat16),
    ]
    if _INSIDE_ATTENTION in registered.rule.text:
        settings = [replace(plain, spelling="attention"), replace(plain, spelling="overloads"), *settings]
    return settings


_INSIDE_ATTENTION = "logical_not"  # of `_safe_softmax`, which nothing else is made with


def _attention(query: Any, key: Any, value: Any, attn_mask: Any = None, inv_scale: float = 1.0) -> Any:
    """Compute attention as users write it, for patterns that match its decomposition."""
    query, key, value = (x.permute([0, 2, 1, 3]) for x in (query, key, value))
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, scale=inv_scale * inv_scale)


def _narrow_values(examples: Sequence[Any]) -> list[Any]:
    """Return the examples with values narrower than the keys: the fused kernel rejects these, so that attention is
    decomposed."""
    query, key, value, *rest = examples
    return [query, key, value[..., : value.shape[-1] // 2], *rest]


def _arguments(registered: Registered, examples: Sequence[Any], record: _CallRecorder) -> dict[str, Any]:
    """Return the arguments of the search function: examples as leaves of the program, scalars as numbers in its
    text."""
    assert registered.search
    remaining = iter(examples)
    arguments: dict[str, Any] = {}
    for name in inspect.signature(registered.search).parameters:
        if name in registered.scalars:
            arguments[name] = _scalar(registered.scalars[name], examples, record.setting)
        else:
            arguments[name] = record.leaf(name, next(remaining), first=not arguments)
    return arguments


def _scalar(value: Any, examples: Sequence[Any], setting: _Setting) -> Any:
    if setting.fitting and isinstance(value, int) and value > 0:
        return min(value, examples[0].shape[0] - 1)
    return round(value, 1) if isinstance(value, float) else value


class _CallRecorder(TorchFunctionMode):
    """Records the torch calls that are made inside it as a graph."""

    def __init__(self, setting: _Setting, *, training: bool) -> None:
        super().__init__()
        self.graph = fx.Graph()
        self.inputs: dict[str, DraftLeaf] = {}
        self.owned: dict[str, DraftLeaf | str] = {}
        self.setting = setting
        self._training = training
        self._nodes: dict[int, fx.Node] = {}
        self._alive: list[torch.Tensor] = []  # an identity is only good while its tensor lives

    def leaf(self, name: str, example: Any, *, first: bool) -> Any:
        """Return an argument of the search function, recorded as an input or owned tensor of the program."""
        setting = self.setting
        if not isinstance(example, torch.Tensor):
            return example
        if not example.shape and setting.zero_dims_are_numbers:
            return 2.0
        shape = tuple(min(size, _LARGEST) for size in example.shape)
        if setting.flat and name.startswith("b"):
            shape = shape[-1:]
        dtype = setting.halves if setting.halves and example.dtype is torch.float16 else example.dtype
        if setting.weights == "int8":
            dtype = torch.bfloat16
        if setting.weights != "inputs" and not first:
            return self._weight(name, shape, dtype)
        if self._training and not example.requires_grad:
            return self._own(name, DraftLeaf(shape, dtype))  # a tensor that a module merely holds gets no gradient
        node = self.graph.placeholder(name)  # which may be given another name
        self.inputs[node.name] = DraftLeaf(shape, dtype, layout=setting.layout if len(shape) > 2 else "plain")
        return self._note(node, torch.empty(shape, dtype=dtype))

    def _weight(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        if self.setting.weights != "int8" or len(shape) == 1:
            return self._own(name, DraftLeaf(shape, dtype, parameter=True))
        held = self._own(name, DraftLeaf(shape, torch.int8))
        with self:
            return held.to(dtype)

    def _own(self, name: str, leaf: DraftLeaf) -> torch.Tensor:
        self.owned[name] = leaf
        return self._note(self.graph.get_attr(name), torch.empty(leaf.shape, dtype=leaf.dtype))

    def node_of(self, tensor: torch.Tensor) -> fx.Node:
        return self._nodes[id(tensor)]

    def _note(self, node: fx.Node, value: torch.Tensor) -> torch.Tensor:
        node.meta["val"] = value
        self._nodes[id(value)] = node
        self._alive.append(value)
        return value

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = _plain(kwargs or {})
        result = func(*args, **kwargs)
        if not isinstance(result, torch.Tensor) or id(result) in self._nodes:
            return result  # a size or a dtype is a number in the text; a call that changes nothing is no line
        written_args, written_kwargs = tree_map_only(torch.Tensor, self.node_of, (tuple(args), dict(kwargs)))
        kind, target = _target(func)
        return self._note(self.graph.create_node(kind, target, written_args, written_kwargs), result)


def _plain(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments without the device: all tensors are on one, and a user would not write it."""
    return {name: value for name, value in kwargs.items() if name != "device"}


def _target(function: Callable[..., Any]) -> tuple[str, Any]:
    name = getattr(function, "__name__", "")
    if name in _OPERATORS:
        return "call_function", _OPERATORS[name]
    if getattr(torch.Tensor, name, None) is function:
        return "call_method", name
    if isinstance(function, torch._ops.OpOverloadPacket):
        return "call_function", getattr(function, function.overloads()[0])
    return "call_function", function
