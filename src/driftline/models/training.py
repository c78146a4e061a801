"""The loss of a batch: what a step of training differentiates.

Checked (`driftline check model:bert-train`), the gradient of every weight is a result too, and is judged like any other
on the compilers that compute gradients.
"""

from __future__ import annotations

from typing import Any

import transformers
from torch import Tensor, nn
from torch.nn import functional

from driftline.models import decoders, recurrent, text, vision
from driftline.models.seeded import initialise, integers
from driftline.models.wrappers import Model, Named


class Loss(nn.Module):
    """A model and the cross entropy of its scores against the right answers."""

    def __init__(self, model: Any, output: str) -> None:
        super().__init__()
        self.model = model
        self._output = output

    def forward(self, labels: Tensor, **inputs: Any) -> dict[str, Tensor]:
        scores = self.model(**inputs)[self._output]
        return {"loss": functional.cross_entropy(scores.flatten(0, -2), labels.flatten())}


def _loss(model: Model, output: str, labels: Tensor) -> Model:
    return Model(Loss(model.module, output), {"labels": labels, **model.inputs})


def bert() -> Model:
    """Hidden words are guessed; the head shares its matrix with the table of words."""
    model = initialise(transformers.BertForMaskedLM(transformers.BertConfig(**text.WIDE)))
    labels = integers("labels", 2, 12, high=text.VOCABULARY)
    return _loss(Model(Named(model, ("logits",)), text.bert().inputs), "logits", labels)


def gpt2() -> Model:
    return _loss(decoders.gpt2(cache=False), "logits", integers("labels", 2, 9, high=decoders.VOCABULARY))


def llama() -> Model:
    return _loss(decoders.llama(cache=False), "logits", integers("labels", 2, 9, high=decoders.VOCABULARY))


def resnet() -> Model:
    return _loss(vision.resnet(), "logits", integers("labels", 2, high=10))


def lstm() -> Model:
    return _loss(recurrent.lstm_tagger(), "scores", integers("labels", 2, 10, high=9))
