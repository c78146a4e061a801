"""Knobs: what can be switched off in a compiler, one at a time or several together. Used by ablation.

Every knob is an option of the target, so the spelling of a target reproduces every result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from driftline.core.target import Target, listed

SETTING = "setting"  # an option of the compiler; all other kinds are names on a list


@dataclass(frozen=True)
class Knob:
    """One thing that can be switched off, by setting an option to a value or adding a name to a list option."""

    option: str
    value: str  # empty: the option is removed
    kind: str = SETTING
    about: str = ""  # a description, or its place in the compiler
    label: str = ""  # a readable name, if the value is an id

    @property
    def listed(self) -> bool:
        return self.kind != SETTING

    @property
    def name(self) -> str:
        if self.listed:
            return self.label or self.value
        return f"{self.option}={self.value}" if self.value else f"without {self.option}"

    def to_json(self) -> dict[str, str]:
        return {**asdict(self), "name": self.name}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Knob:
        return Knob(**{key: text for key, text in value.items() if key != "name"})


def turned(target: Target, knobs: Iterable[Knob]) -> Target:
    """Return the target with these knobs switched off."""
    options = dict(target.options)
    for knob in knobs:
        if knob.listed:
            names = listed(options, knob.option)
            options[knob.option] = "+".join(dict.fromkeys([*names, knob.value]))
        elif knob.value:
            options[knob.option] = knob.value
        else:
            options.pop(knob.option, None)
    return Target(target.backend, target.version, tuple(options.items()))
