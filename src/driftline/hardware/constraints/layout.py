"""The constraint on memory formats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from driftline.core.text import did_you_mean
from driftline.hardware.constraint import Broken, Constraint, register_constraint, setting
from driftline.hardware.facts import NodeFacts

FORMATS = ("contiguous", "channels_last", "channels_last_3d")


def _formats(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"must be a list of memory formats such as ['contiguous'], not {value!r}")
    names = tuple(str(one).removeprefix("torch.").replace("contiguous_format", "contiguous") for one in value)
    for name in names:
        if name not in FORMATS:
            raise ValueError(
                f"{name!r} is not a memory format.{did_you_mean(name, FORMATS)} Known: {', '.join(FORMATS)}"
            )
    if not names:
        raise ValueError("must name at least one memory format")
    return names


@register_constraint("layout")
@dataclass(frozen=True)
class LayoutConstraint(Constraint):
    """Tensors that are read must have one of these memory formats."""

    formats: tuple[str, ...] = setting(_formats, "memory formats that the device reads", default=("contiguous",))

    def broken_by(self, node: NodeFacts) -> Iterator[Broken]:
        # A view that nothing reads costs nothing: what counts is what operators are given. Views take any layout.
        if not node.is_call or self._is_view(node):
            return
        for tensor in dict.fromkeys(node.inputs):
            if not set(tensor.formats) & set(self.formats):
                value = f"{tensor} is read with strides {list(tensor.strides)}"
                copy = "a copy by .contiguous()" if "contiguous" in self.formats else f"a copy in {self.formats[0]}"
                yield Broken(value, " or ".join(self.formats), copy)

    @staticmethod
    def _is_view(node: NodeFacts) -> bool:
        given = {tensor.storage for tensor in node.inputs}
        return bool(node.outputs) and all(tensor.storage in given for tensor in node.outputs)
