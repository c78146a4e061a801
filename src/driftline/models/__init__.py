"""Real architectures, built from their configurations with seeded weights: no downloads, the same bits everywhere.

    from driftline import models

    models.names()                       # what there is
    module, inputs = models.build("bert")
    module(**inputs)

Listing needs no framework; building imports torch, and transformers for most of them.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean
from driftline.models.catalogue import CATALOGUE, FAMILIES
from driftline.models.entry import Entry

__all__ = ["CATALOGUE", "FAMILIES", "Entry", "build", "find", "names", "source_text"]


def names() -> tuple[str, ...]:
    return tuple(CATALOGUE)


def find(name: str) -> Entry:
    """Return the entry called `name`. Raise with suggestions for an unknown name."""
    if name not in CATALOGUE:
        hint = did_you_mean(name, CATALOGUE)
        raise DriftlineError(f"There is no model {name!r}.{hint} `driftline models list` shows all.")
    return CATALOGUE[name]


def build(name: str, *, dtype: str | None = None, **settings: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return the live model (a module, or an ONNX model) and the arguments of one call by name. `dtype` and `settings`,
    such as `batch`, replace those of the corpus, if the model supports them.
    """
    entry = find(name)
    entry.require_packages()
    module, _, function = entry.maker.partition(":")
    maker = getattr(importlib.import_module(f"driftline.models.{module}"), function)
    _hush()
    made: tuple[Any, Mapping[str, Any]] = maker(**{**entry.settings, **settings})
    if entry.form == "torch":
        from driftline.models.convert import finished

        return finished(*made, dtype or entry.dtype)
    return made


def _hush() -> None:
    """Silence warnings of transformers about faster kernels and token ids, which do not matter here."""
    if transformers := sys.modules.get("transformers"):
        transformers.logging.set_verbosity_error()


def source_text(name: str, *, dtype: str | None = None, **settings: Any) -> str:
    """Return the text of a file that builds the model, which `driftline check model:NAME` stores and replays. Arguments
    are those of `build`.

    The text names the versions and a digest of the code that the model is made with, so that results of another corpus
    are not mistaken for results of this one.
    """
    entry = find(name)
    made_of = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in entry.needs)
    changed = {**({"dtype": dtype} if dtype else {}), **settings}
    arguments = "".join(f", {key}={value!r}" for key, value in changed.items())
    return (
        f"# {entry.name}: {entry.description} (corpus {_corpus(entry.maker.partition(':')[0])}, {made_of})\n"
        "import torch\n\nfrom driftline.models import build\n\n\n"
        f"def program():\n    return build({entry.name!r}{arguments})\n"
    )


_SHARED = ("seeded", "wrappers", "convert")
_VARIANTS = {  # families made of the models of others
    "quantized": ("export", "text", "decoders", "vision"),
    "training": ("text", "decoders", "vision", "recurrent"),
}


@cache
def _corpus(module: str) -> str:
    """Return a digest of the source code that makes a model: the file of its family and the shared ones."""
    digest = hashlib.blake2b(digest_size=4)
    for name in (module, *_SHARED, *_VARIANTS.get(module, ())):
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return digest.hexdigest()
