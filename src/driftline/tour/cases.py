"""Programs that a released compiler gets plainly wrong on any processor. The tour shows the first that fails here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TourCase:
    """A program, the compiler that gets it wrong, and the compilers to compare it with."""

    name: str
    file: str
    text: str
    target: str
    others: tuple[str, ...]  # that are right
    story: str
    good: str = ""  # a release that is right, and small enough to download for a demonstration


_CLASSIFIER = TourCase(
    "classifier",
    "classifier.py",
    '''"""A small image classifier, as exporters write it: features, a pooling with a border of zeros, scores."""

import numpy as np
from onnx import numpy_helper, parser

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
classifier (float[1, 3, 8, 8] image) => (float[1, 5] scores)
    <int64[8] border = {0, 0, 1, 1, 0, 0, 1, 1}, float half = {0.5}> {
    dimmed = Mul(image, half)
    features = Conv <pads = [1, 1, 1, 1]> (dimmed, kernel, bias)
    active = LeakyRelu <alpha = 0.2> (features)
    framed = Pad(active, border)
    pooled = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (framed)
    squashed = Tanh(pooled)
    mean = GlobalAveragePool(squashed)
    flat = Flatten(mean)
    product = MatMul(flat, weight)
    logits = Add(product, offset)
    scores = Softmax(logits)
}
"""


def program():
    rng = np.random.default_rng(30)
    model = parser.parse_model(MODEL)
    weights = {
        "kernel": rng.normal(size=(4, 3, 3, 3)) / 6,
        "bias": np.full(4, -2.0),  # most features are negative
        "weight": rng.normal(size=(4, 5)),
        "offset": rng.normal(size=5),
    }
    for name, value in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), name))
    return model, {"image": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)}
''',
    "onnxruntime",
    ("onnx-reference", "openvino"),
    "An image classifier of eleven operators, as exporters write them. ONNX Runtime has run such models for years.",
    "1.16.3",
)

_NORM = TourCase(
    "normalisation",
    "normalisation.py",
    '''"""A normalisation by the mean of cubes, beside a linear layer."""

import numpy as np
from onnx import parser

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
g (float[1, 3] x) => (float[1, 3] y)
    <int64[1] last = {-1}, float tiny = {1e-5}, float three = {3},
     float[3] scale = {1, 1, 1}, float[3] shift = {0, 0, 0}> {
    held = Abs(x)
    mean = ReduceMean(held, last)
    centred = Sub(held, mean)
    cubes = Pow(centred, three)
    spread = ReduceMean(cubes, last)
    safe = Add(spread, tiny)
    root = Sqrt(safe)
    normal = Div(centred, root)
    scaled = Mul(normal, scale)
    shifted = Add(scaled, shift)
    y = Tanh(shifted)
}
"""


def program():
    return parser.parse_model(MODEL), {"x": np.array([[1.0, -2.0, 9.0]], dtype=np.float32)}
''',
    "onnxruntime",
    ("onnx-reference",),
    "A normalisation that divides by the root of a mean of cubes. It looks like a layer norm, and is none.",
)

_CUMSUM = TourCase(
    "cumsum",
    "counting.py",
    '''"""Numbers the elements of a row in steps of 50, in bytes, which wrap around."""

import torch


def numbered(x):
    steps = torch.full((8,), 50, dtype=torch.uint8)
    return torch.relu(x) + torch.cumsum(steps, dim=0, dtype=torch.uint8)


def program():
    return numbered, (torch.linspace(-1, 1, 8),)
''',
    "inductor",
    ("aot_eager",),
    "The elements of a row are numbered by a cumulative sum of bytes.",
)

CASES = (_CLASSIFIER, _NORM, _CUMSUM)
