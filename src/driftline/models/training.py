"""A step of training: the loss and the gradient of every weight, as one function of the batch and the weights.

The gradients come from `torch.func`, so that the step is a program like any other: what it returns can be judged on
every compiler that takes it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from driftline.models.wrappers import Model


class Step(nn.Module):
    """Loss and gradients for a model and the right answers."""

    def __init__(self, model: Any, output: str) -> None:
        super().__init__()
        self.model = model
        self._output = output
        self._names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]

    def forward(self, labels: Tensor, **inputs: Any) -> dict[str, Any]:
        weights = dict(self.model.named_parameters())

        def loss(trained: dict[str, Tensor]) -> Tensor:
            result = torch.func.functional_call(self.model, {**weights, **trained}, (), inputs)
            scores = result[self._output] if isinstance(result, dict) else result
            return functional.cross_entropy(scores.flatten(0, -2).float(), labels.flatten())

        gradients, value = torch.func.grad_and_value(loss)({name: weights[name] for name in self._names})
        return {"loss": value, "gradients": {name.replace(".", "_"): g for name, g in gradients.items()}}


def step_of(model: Model, output: str, labels: Tensor) -> Model:
    module = model.module
    for parameter in module.parameters():
        parameter.requires_grad_(True)
    return Model(Step(module, output), {"labels": labels, **model.inputs})


def bert() -> Model:
    """Masked words are guessed from the last states: the head is the table of words itself."""
    import transformers

    from driftline.models.seeded import initialise, integers
    from driftline.models.text import _WIDE, VOCABULARY
    from driftline.models.text import bert as encoder
    from driftline.models.wrappers import Named

    model = initialise(transformers.BertForMaskedLM(transformers.BertConfig(**_WIDE)))
    return step_of(
        Model(Named(model, ("logits",)), encoder().inputs), "logits", integers("labels", 2, 12, high=VOCABULARY)
    )


def gpt2() -> Model:
    from driftline.models.decoders import VOCABULARY
    from driftline.models.decoders import gpt2 as decoder
    from driftline.models.seeded import integers

    return step_of(decoder(cache=False), "logits", integers("labels", 2, 9, high=VOCABULARY))


def resnet() -> Model:
    from driftline.models.seeded import integers
    from driftline.models.vision import resnet as classifier

    return step_of(classifier(), "logits", integers("labels", 2, high=10))


def lstm() -> Model:
    from driftline.models.recurrent import lstm_tagger
    from driftline.models.seeded import integers

    return step_of(lstm_tagger(), "scores", integers("labels", 2, 10, high=9))
