"""Adapters around Hugging Face models: named tensors in, a dict of tensors out, the cache as a plain nested value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn


class Model(NamedTuple):
    """A live program with the arguments of one call, by name."""

    module: Any
    inputs: Mapping[str, Any]


class Named(nn.Module):
    """Calls a model with keyword arguments and keeps the named results."""

    def __init__(self, model: nn.Module, outputs: Sequence[str], **always: Any) -> None:
        super().__init__()
        self.model = model
        self._outputs = tuple(outputs)
        self._always = always

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        result = self.model(**inputs, **self._always)
        return {name: result[name] for name in self._outputs}


class Cached(nn.Module):
    """A step of a decoder: new tokens and the keys and values of the earlier ones in, logits and all of them out.

    The cache is a tuple of `{"key": ..., "value": ...}`, so that its tensors are called `past_key_values.0.key`, as in
    the files that optimum writes.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        past_key_values: Sequence[Mapping[str, Tensor]],
    ) -> dict[str, Any]:
        from transformers import DynamicCache

        result = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=DynamicCache([(layer["key"], layer["value"]) for layer in past_key_values]),
            use_cache=True,
        )
        present = tuple({"key": layer.keys, "value": layer.values} for layer in result.past_key_values.layers)
        return {"logits": result.logits, "present": present}
