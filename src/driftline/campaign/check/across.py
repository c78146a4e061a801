"""Checking one compiler on several instruction sets of this machine.

The oracle gives the verdicts, as for any target. A bitwise difference between two instruction sets is information, not
a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driftline.backends import resolve
from driftline.core.errors import DriftlineError
from driftline.core.processor import Processor, this_processor
from driftline.core.target import Target
from driftline.core.text import did_you_mean

ISA = "isa"
WAYS = (ISA,)


@dataclass(frozen=True)
class IsaFamily:
    """A target, and copies of it that use other instruction sets."""

    target: Target
    variants: tuple[Target, ...]

    @property
    def members(self) -> tuple[Target, ...]:
        return (self.target, *self.variants)


def check_way(way: str) -> None:
    """Raise DriftlineError unless `way` is a known value of `--across`."""
    if way not in WAYS:
        raise DriftlineError(f"--across {way}: give one of {', '.join(WAYS)}.{did_you_mean(way, WAYS)}")


def across_isa(targets: Sequence[Target], processor: Processor | None = None) -> tuple[list[IsaFamily], list[Target]]:
    """Return the targets with their variants on this processor, and the targets whose instruction set cannot be
    chosen."""
    here = processor or this_processor()
    families = {target: IsaFamily(target, _variants(target, here)) for target in targets}
    return [family for family in families.values() if family.variants], [
        target for target, family in families.items() if not family.variants
    ]


def _variants(target: Target, processor: Processor) -> tuple[Target, ...]:
    """Return copies of the target for other instruction sets; options that the target already has are not
    overwritten."""
    found = []
    for options in resolve(target).isa_variants(processor):
        if not options.keys() & dict(target.options).keys():
            found.append(Target(target.backend, target.version, (*target.options, *options.items())))
    return tuple(found)


def require_families(targets: Sequence[Target]) -> tuple[list[IsaFamily], str]:
    """Return the families and a sentence about the targets without variants. Raises DriftlineError if no family is
    left."""
    families, without = across_isa(targets)
    names = ", ".join(map(str, without))
    told = (
        f"Not run, since they cannot be told which instruction set to use here ({this_processor().machine}): {names}."
    )
    if not families:
        raise DriftlineError(
            f"--across isa: {names or 'none of the targets'} cannot be told which instruction set to use on this"
            f" processor ({this_processor().machine}). docs/targets.md lists those that can; try inductor, tvm or iree."
        )
    return families, told if without else ""
