"""Networks for pictures that transformers has: classifiers, and a picture compared with a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import transformers

from driftline.models.seeded import floats, initialise, integers, mask
from driftline.models.wrappers import Model, Named

_VIT = {
    "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "image_size": 32,
    "patch_size": 8, "num_labels": 10,
}  # fmt: skip


def vit() -> Model:
    return _classifier(transformers.ViTForImageClassification(transformers.ViTConfig(**_VIT)), 32)


def vit_base() -> Model:
    """The real thing: 12 layers, 768 wide, 86 million weights, 197 patches."""
    return _classifier(transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)), 224, batch=1)


def deit() -> Model:
    """A second token that learns from a teacher; the two heads' answers are averaged."""
    return _classifier(transformers.DeiTForImageClassificationWithTeacher(transformers.DeiTConfig(**_VIT)), 32)


def dinov2() -> Model:
    """Layer scale, and a gated feed-forward block."""
    config = transformers.Dinov2Config(**_VIT, use_swiglu_ffn=True)
    return _classifier(transformers.Dinov2ForImageClassification(config), 32)


def swin() -> Model:
    """Attention in windows that are shifted by rolling the picture."""
    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=10
    )
    return _classifier(transformers.SwinForImageClassification(config), 32)


def convnext() -> Model:
    """Depthwise convolutions of 7x7, layer norms over channels, layer scale."""
    config = transformers.ConvNextConfig(depths=[1, 1, 2, 1], hidden_sizes=[16, 24, 32, 48], num_labels=10)
    return _classifier(transformers.ConvNextForImageClassification(config), 64)


def resnet() -> Model:
    config = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 2, 1], layer_type="bottleneck", num_labels=10
    )
    return _classifier(transformers.ResNetForImageClassification(config), 64)


def resnet_50() -> Model:
    """The real thing: 25 million weights, a picture of 224x224."""
    return _classifier(transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=1000)), 224, 1)


def regnet() -> Model:
    """Convolutions in groups, with squeeze and excitation."""
    config = transformers.RegNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1], groups_width=8, num_labels=10
    )
    return _classifier(transformers.RegNetForImageClassification(config), 64)


def efficientnet() -> Model:
    """Inverted bottlenecks with squeeze and excitation, and SiLU."""
    config = transformers.EfficientNetConfig(
        image_size=64, width_coefficient=0.25, depth_coefficient=0.34, hidden_dim=320, num_labels=10
    )
    return _classifier(transformers.EfficientNetForImageClassification(config), 64)


def mobilenet_v2() -> Model:
    config = transformers.MobileNetV2Config(image_size=64, depth_multiplier=0.25, num_labels=10)
    return _classifier(transformers.MobileNetV2ForImageClassification(config), 64)


def clip() -> Model:
    """Two towers whose unit vectors are compared: the text's is taken at its last token, found by argmax."""
    text = {"vocab_size": 211, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "max_position_embeddings": 32, "eos_token_id": 210, "bos_token_id": 1,
            "pad_token_id": 0}  # fmt: skip
    vision = {**_VIT, "hidden_size": 32, "intermediate_size": 64}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)
    model = initialise(transformers.CLIPModel(config), {"logit_scale": lambda name, shape: np.full(shape, 1.5)})
    tokens = integers("input_ids", 3, 8, low=4, high=209)
    tokens[:, -1] = 210
    tokens[-1, 5:] = 210
    inputs = {
        "input_ids": tokens,
        "attention_mask": mask(3, 8, padding=2),
        "pixel_values": floats("pixel_values", 2, 3, 32, 32),
    }
    return Model(Named(model, ("logits_per_image", "text_embeds", "image_embeds")), inputs)


def _classifier(model: Any, size: int, batch: int = 2) -> Model:
    return Model(Named(initialise(model), ("logits",)), {"pixel_values": floats("pixel_values", batch, 3, size, size)})
