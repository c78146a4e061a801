"""Targets: one string grammar for "which compiler, which version, with which options".

    inductor
    inductor:freezing=true:device=cuda
    onnxruntime@1.15.1:opt=off
    dynamo:cudagraphs
    tvm:target="llvm -mcpu=core-avx2 -mattr=+avx2,+fma"

A value in double quotes may hold anything; a backslash stands before a quote or a backslash in it. A comma separates
targets in a list. Whether the backend exists and knows the options is checked against the backend's
declaration (`backends.resolve`); this file knows the grammar alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from driftline.core.errors import DriftlineError

_HEAD = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_NEEDS_QUOTES = re.compile(r'[:,"]|^\s|\s$')


@dataclass(frozen=True)
class Target:
    """A backend with options, on a device, perhaps in another environment."""

    backend: str
    version: str | None = None
    options: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def parse(text: str) -> Target:
        """Parse a target. Raises DriftlineError for text that is not a target."""
        head, *parts = _split(text.strip(), ":")
        name, _, version = head.partition("@")
        if parts and "=" not in parts[0]:  # a family such as `dynamo:<name>`
            name = f"{name}:{parts.pop(0)}"
        options: dict[str, str] = {}
        for part in parts:
            key, equals, value = part.partition("=")
            if not equals or not key or not value:
                raise DriftlineError(
                    f"Target {text!r}: {part!r} is not an option; write options as name=value, as in 'tvm:opt=0'."
                )
            if key in options:
                raise DriftlineError(f"Target {text!r} sets {key!r} twice; keep one of them.")
            options[key] = _unquoted(value, text)
        if not all(_HEAD.fullmatch(piece) for piece in name.split(":")) or (("@" in head) and not version):
            raise DriftlineError(
                f"Target {text!r} is not of the form backend[@version][:option=value ...], as in 'onnxruntime:opt=off'."
            )
        return Target(name, version or None, tuple(options.items()))

    @property
    def device(self) -> str:
        return dict(self.options).get("device", "cpu")

    def also(self, options: Iterable[tuple[str, str]]) -> Target:
        """Return the target with further options; its own values are not changed."""
        own = dict(self.options)
        more = tuple(pair for pair in options if pair[0] not in own)
        return replace(self, options=(*self.options, *more)) if more else self

    @property
    def told(self) -> dict[str, str]:
        """The options that are passed to the backend. A declared arithmetic is for the oracle only, except on a GPU,
        which has to be told."""
        return {key: value for key, value in self.options if key != "arithmetic" or self.device != "cpu"}

    def __str__(self) -> str:
        version = f"@{self.version}" if self.version else ""
        family, colon, member = self.backend.partition(":")
        return f"{family}{version}{colon}{member}" + "".join(f":{key}={_quoted(value)}" for key, value in self.options)


def is_backend_name(text: str) -> bool:
    """True if a target can begin with this text."""
    return _HEAD.fullmatch(text) is not None


def parse_targets(text: str) -> list[Target]:
    """Parse a comma-separated list of targets; duplicates are dropped."""
    targets = [Target.parse(part) for part in _split(text, ",") if part.strip()]
    if not targets:
        raise DriftlineError("No target given; name at least one, as in inductor,onnxruntime:opt=all.")
    return list(dict.fromkeys(targets))


def _split(text: str, separator: str) -> list[str]:
    """Split at separators that are not inside a quoted value."""
    parts, start, at = [], 0, 0
    while at < len(text):
        if text.startswith('="', at):
            closed = _QUOTED.match(text, at + 1)
            if not closed:
                raise DriftlineError(f'Target {text!r}: a value begins with a quote that is not closed; add a ".')
            at = closed.end()
        elif text[at] == separator:
            parts.append(text[start:at])
            start = at = at + 1
        else:
            at += 1
    return [*parts, text[start:]]


def _quoted(value: str) -> str:
    """Return a value as it is written in a target: in quotes if it could be misread without them."""
    if not _NEEDS_QUOTES.search(value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def _unquoted(value: str, target: str) -> str:
    if not value.startswith('"'):
        return value
    found = _QUOTED.fullmatch(value)
    if not found or not found[1]:
        raise DriftlineError(
            f'Target {target!r}: {value} is not a quoted value; write it as in tvm:target="llvm -mcpu=generic".'
        )
    return re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL)


def listed(options: Mapping[str, str], key: str) -> list[str]:
    """Return the values of an option that accepts several, joined with '+'."""
    return options[key].split("+") if options.get(key) else []
