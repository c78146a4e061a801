"""Descriptions of passes, with programs that they change; the data is in `pass_texts.toml`."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HLO, TFLITE = "hlo", "tflite"
# The table with the descriptions of a backend's passes, by backend.
TABLES = {"xla": HLO, "tensorflow-xla": HLO, "tflite": TFLITE}
_HEADS = {
    "jax": "import jax\nimport jax.numpy as jnp\nfrom jax import lax\n",
    "tensorflow": "import numpy as np\nimport tensorflow as tf\n",
}


@dataclass(frozen=True)
class PassText:
    """The description of one pass or fusion."""

    name: str
    words: str
    jax: tuple[str, ...] = ()  # an example: the expression that its model returns, then its inputs
    tensorflow: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()  # operations that become fewer
    made: tuple[str, ...] = ()  # operations that become more; `:RELU` stands for any with this activation
    without: tuple[str, ...] = ()  # operations that must not become more

    def program(self, form: str) -> str:
        """Return a program that the pass changes, as the text of a file with a factory; empty if none is known in this
        form."""
        example = self.jax if form == "jax" else self.tensorflow
        if not example:
            return ""
        expression, *inputs = example
        names = ", ".join("xyz"[: len(inputs)])
        given = f"({', '.join(inputs)}{',' * (len(inputs) == 1)})"
        head = _HEADS[form]
        return (
            f"{head}\n\ndef model({names}):\n    return {expression}\n\n\ndef program():\n    return model, {given}\n"
        )

    def explains(self, gone: Counter[str], made: Counter[str]) -> bool:
        """True if the pass accounts for the operations that disappeared and appeared."""
        kinds = {name.partition(":")[0] for name in made}
        return (
            all(name in gone for name in self.gone)
            and all(any(one == name or (name[0] == ":" and one.endswith(name)) for one in made) for name in self.made)
            and not kinds.intersection(self.without)
        )


@dataclass(frozen=True)
class _Tables:
    hlo: Mapping[str, PassText] = field(default_factory=dict)
    tflite: Mapping[str, PassText] = field(default_factory=dict)


def pass_texts(backend: str) -> Mapping[str, PassText]:
    """Return the described passes of a backend, by name; empty for backends without descriptions."""
    found: Mapping[str, PassText] = getattr(_read(), TABLES[backend]) if backend in TABLES else {}
    return found


@cache
def _read() -> _Tables:
    data = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    return _Tables(**{table: {name: _text(name, told) for name, told in data[table].items()} for table in data})


def _text(name: str, told: Mapping[str, object]) -> PassText:
    lists = {key: tuple(value) for key, value in told.items() if isinstance(value, list)}
    return PassText(name, str(told["words"]), **lists)
