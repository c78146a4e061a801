"""The models of the suite, each in two sizes: as its paper has it, and small, for tests and a first look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean
from driftline.models import find, source_text

if TYPE_CHECKING:
    from driftline.core.program import SourceBundle

FULL, SMALL = "full", "small"
DTYPES = ("float32", "float16", "bfloat16")
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class SizedModel:
    """A model of the corpus (`driftline models list`) with the settings that it is built with."""

    corpus: str
    words: str
    settings: Mapping[str, Any] = field(default_factory=lambda: _NONE)
    judged_settings: Mapping[str, Any] = field(default_factory=lambda: _NONE)
    judged_on: str = ""  # the input of these settings, in words; empty: the verdict is on the input that is timed

    def judged(self) -> SizedModel:
        """Return the model with the same weights and a smaller input, on which the oracle can afford a dozen runs in
        float64.
        """
        return replace(self, settings={**self.settings, **self.judged_settings})

    def bundle(self, dtype: str) -> SourceBundle:
        """Return source code that builds the model, for workers."""
        from driftline.core.program import SourceBundle

        find(self.corpus).require_packages()
        text = source_text(self.corpus, dtype=dtype, **self.settings)
        return SourceBundle("model.py", "program", {"model.py": text})


SUITE: Mapping[str, Mapping[str, SizedModel]] = {
    "bert": {
        FULL: SizedModel("bert-base", "BERT-base, 1 x 128 tokens", {"batch": 1, "length": 128}),
        SMALL: SizedModel("bert", "BERT of 2 layers, 2 x 12 tokens"),
    },
    "resnet18": {
        FULL: SizedModel("resnet-18", "ResNet-18, 1 x 3 x 224 x 224"),
        SMALL: SizedModel("resnet-18-narrow", "ResNet-18 of 8 to 64 channels, 2 x 3 x 64 x 64"),
    },
    "mamba": {
        FULL: SizedModel(
            "mamba-130m", "Mamba-130m, 1 x 64 tokens", judged_settings={"length": 16}, judged_on="1 x 16 tokens"
        ),
        SMALL: SizedModel("state-space", "Mamba of 2 layers, 2 x 12 tokens"),
    },
    "gpt": {
        FULL: SizedModel(
            "gpt2-124m",
            "GPT-2, a prompt of 1 x 128 tokens",
            {"batch": 1, "length": 128},
            {"length": 32},
            "1 x 32 tokens",
        ),
        SMALL: SizedModel("gpt2-prompt", "GPT-2 of 2 layers, 2 x 9 tokens"),
    },
    "unet": {
        FULL: SizedModel(
            "unet-2015", "U-Net, 1 x 1 x 572 x 572", judged_settings={"size": 188}, judged_on="1 x 1 x 188 x 188"
        ),
        SMALL: SizedModel("unet-2015-narrow", "U-Net of 4 to 64 channels, 1 x 1 x 188 x 188"),
    },
}


def chosen_models(text: str) -> list[str]:
    """Parse a comma-separated list of models. Raise with a suggestion for unknown names."""
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise DriftlineError(f"--models: name at least one of {', '.join(SUITE)}.")
    for name in names:
        if name not in SUITE:
            raise DriftlineError(
                f"--models {name}: the suite has no such model.{did_you_mean(name, SUITE)} It has {', '.join(SUITE)}."
            )
    return names


def described() -> Sequence[tuple[str, str]]:
    """Return each model's name with a description of its two sizes."""
    return [(name, f"{sizes[FULL].words}; small: {sizes[SMALL].words}") for name, sizes in SUITE.items()]
