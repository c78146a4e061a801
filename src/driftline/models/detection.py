"""Where things are in a picture: boxes and masks."""

from __future__ import annotations

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

from driftline.models.seeded import floats, initialise
from driftline.models.wrappers import Model, Named


def detr() -> Model:
    """A convolutional backbone, a transformer over its map, and queries that ask for boxes."""
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage4"],
    )  # fmt: skip
    config = transformers.DetrConfig(
        backbone_config=backbone, use_timm_backbone=False, backbone=None, use_pretrained_backbone=False,
        d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=6, num_labels=5,
    )  # fmt: skip
    model = Named(initialise(transformers.DetrForObjectDetection(config)), ("logits", "pred_boxes"))
    seen = torch.ones(2, 64, 64, dtype=torch.int64)
    seen[1, :, 48:] = 0  # the second picture is narrower
    return Model(model, {"pixel_values": floats("pixel_values", 2, 3, 64, 64), "pixel_mask": seen})


def yolos() -> Model:
    """A vision transformer with tokens that stand for boxes; its position table is resized bicubically."""
    config = transformers.YolosConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=[32, 48],
        patch_size=8, num_detection_tokens=6, num_labels=5, use_mid_position_embeddings=True,
    )  # fmt: skip
    model = Named(initialise(transformers.YolosForObjectDetection(config)), ("logits", "pred_boxes"))
    return Model(model, {"pixel_values": floats("pixel_values", 1, 3, 40, 48)})


def segformer() -> Model:
    """Attention with a shortened sequence, feed-forward with a depthwise convolution, maps of four sizes joined."""
    config = transformers.SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 2, 4], sr_ratios=[4, 2, 2, 1],
        decoder_hidden_size=24, num_labels=6,
    )  # fmt: skip
    model = Named(initialise(transformers.SegformerForSemanticSegmentation(config)), ("logits",))
    return Model(model, {"pixel_values": floats("pixel_values", 1, 3, 64, 64)})


class ConvBlock(nn.Sequential):
    def __init__(self, narrow: int, wide: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(narrow, wide, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(wide), nn.SiLU()
        )


class SplitBlock(nn.Module):
    """Half of the channels go around the convolutions, and every step is kept."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter, self.leave = ConvBlock(width, width, 1), ConvBlock(2 * width, width, 1)
        self.inner = nn.ModuleList([ConvBlock(width // 2, width // 2) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.enter(x).chunk(2, dim=1))
        for layer in self.inner:
            parts.append(parts[-1] + layer(parts[-1]))
        return self.leave(torch.cat(parts, dim=1))


class Yolo(nn.Module):
    """Two scales, pooled context, a distribution over distances for each side of a box, boxes on a grid of anchors."""

    def __init__(self, classes: int = 5, bins: int = 8, width: int = 16) -> None:
        super().__init__()
        self.bins, self.classes = bins, classes
        self.stem = nn.Sequential(ConvBlock(3, width, 3, 2), ConvBlock(width, width, 3, 2), SplitBlock(width))
        self.fine = nn.Sequential(ConvBlock(width, width, 3, 2), SplitBlock(width))
        self.coarse = nn.Sequential(ConvBlock(width, 2 * width, 3, 2), SplitBlock(2 * width))
        self.pooled = ConvBlock(8 * width, 2 * width, 1)
        self.join = ConvBlock(3 * width, width, 1)
        outs = 4 * bins + classes
        self.heads = nn.ModuleList([nn.Conv2d(width, outs, 1), nn.Conv2d(2 * width, outs, 1)])
        self.register_buffer("distances", torch.arange(bins, dtype=torch.float32))

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        fine = self.fine(self.stem(images))
        coarse = self.coarse(fine)
        context = [coarse]
        for _ in range(3):
            context.append(functional.max_pool2d(context[-1], 5, 1, 2))
        coarse = self.pooled(torch.cat(context, dim=1))
        fine = self.join(torch.cat([fine, functional.interpolate(coarse, scale_factor=2.0)], dim=1))
        found = [
            self._boxes(head(x), 8 << n) for n, (head, x) in enumerate(zip(self.heads, (fine, coarse), strict=True))
        ]
        boxes, scores = (torch.cat(part, dim=1) for part in zip(*found, strict=True))
        best, place = scores.amax(-1).topk(6, dim=1)
        return {"boxes": torch.gather(boxes, 1, place[:, :, None].expand(-1, -1, 4)), "scores": scores, "best": best}

    def _boxes(self, found: Tensor, stride: int) -> tuple[Tensor, Tensor]:
        _, _, high, wide = found.shape
        rows = torch.arange(high, device=found.device, dtype=found.dtype) + 0.5
        columns = torch.arange(wide, device=found.device, dtype=found.dtype) + 0.5
        y, x = torch.meshgrid(rows, columns, indexing="ij")
        centres = torch.stack([x, y], dim=-1).reshape(1, high * wide, 2)
        flat = found.flatten(2).transpose(1, 2)
        sides = flat[..., : 4 * self.bins].unflatten(-1, (4, self.bins)).softmax(-1) @ self.distances
        before, after = sides.chunk(2, dim=-1)
        return torch.cat([centres - before, centres + after], dim=-1) * stride, flat[..., 4 * self.bins :].sigmoid()


def yolo() -> Model:
    return Model(initialise(Yolo()), {"images": floats("images", 1, 3, 64, 64)})
