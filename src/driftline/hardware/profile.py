"""A hardware profile: a device's name, its constraints, and how it computes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean
from driftline.hardware.arithmetic import DeviceArithmetic
from driftline.hardware.constraint import Constraint, byte_count
from driftline.hardware.constraints.memory import MemoryConstraint
from driftline.hardware.constraints.shape import ShapeConstraint
from driftline.hardware.facts import GraphFacts
from driftline.hardware.violation import Violation

SHIPPED = Path(__file__).with_name("profiles")
GENERIC = "generic"  # what is taken when no profile is named
_SWITCHES = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Profile:
    """A device, as far as it matters to a program.

    `strict`: what breaks a constraint is an error, not a warning. `arithmetic`: the mock computes like this.
    """

    name: str
    constraints: tuple[Constraint, ...] = ()
    strict: bool = False
    arithmetic: DeviceArithmetic = field(default_factory=DeviceArithmetic)
    description: str = ""

    def violations(self, graph: GraphFacts) -> list[Violation]:
        """Constraint by constraint, each in the order of the graph."""
        return [found for constraint in self.constraints for found in constraint.violations(graph)]

    def with_constraints(self, constraints: Sequence[Constraint]) -> Profile:
        for one in constraints:
            if not isinstance(one, Constraint):
                raise DriftlineError(f"constraints: {one!r} is not a Constraint, such as ShapeConstraint(alignment=8).")
        return replace(self, constraints=tuple(constraints))

    def with_alignment(self, alignment: int) -> Profile:
        """Every shape constraint with this alignment, or a new one; 1 takes them away."""
        others = tuple(one for one in self.constraints if not isinstance(one, ShapeConstraint))
        if alignment <= 1:
            return replace(self, constraints=others)
        shapes = [one for one in self.constraints if isinstance(one, ShapeConstraint)] or [ShapeConstraint()]
        return replace(self, constraints=(*(replace(one, alignment=alignment) for one in shapes), *others))

    def with_max_memory(self, max_bytes: int) -> Profile:
        """The limit of bytes of a tensor; the limits of what is live at once stay."""
        others = tuple(one for one in self.constraints if not isinstance(one, MemoryConstraint))
        return replace(self, constraints=(*others, MemoryConstraint(max_bytes=max_bytes)))

    def overridden(self, variables: Mapping[str, str] = os.environ) -> Profile:
        """What `MOCK_STRICT`, `MOCK_ALIGNMENT` and `MOCK_MAX_MEMORY` say in place of the profile and of arguments."""
        changed = self
        if text := variables.get("MOCK_STRICT"):
            if text.lower() not in _SWITCHES:
                raise DriftlineError(f"MOCK_STRICT={text} is not valid; write 1 or 0.")
            changed = replace(changed, strict=_SWITCHES[text.lower()])
        if text := variables.get("MOCK_ALIGNMENT"):
            if not text.isascii() or not text.isdigit():
                raise DriftlineError(f"MOCK_ALIGNMENT={text} is not valid; write a whole number, such as 32 (1: none).")
            changed = changed.with_alignment(int(text))
        if text := variables.get("MOCK_MAX_MEMORY"):
            try:
                changed = changed.with_max_memory(byte_count(int(text) if text.isdigit() else text))
            except ValueError as error:
                raise DriftlineError(f"MOCK_MAX_MEMORY={text} is not valid: {error}.") from error
        return changed


def shipped_profiles() -> list[str]:
    """The names of the profiles that come with Driftline."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def load_profile(profile: str | Path | Profile) -> Profile:
    """A profile by the name of a shipped one, by a TOML file, or as `file.py:name` of a Python file; or as it is."""
    if isinstance(profile, Profile):
        return profile
    from driftline.hardware.reader import read_profile

    text = str(profile)
    python, _, attribute = text.partition(".py:")
    if text.endswith(".py") or attribute:
        return _from_python(Path(f"{python}.py") if attribute else Path(text), attribute or "profile")
    path = profile_file(text)
    return read_profile(path)


def profile_file(text: str) -> Path:
    """The TOML file that is meant: a shipped name, or a path."""
    if text in shipped_profiles():
        return SHIPPED / f"{text}.toml"
    path = Path(text).expanduser()
    if not path.is_file():
        known = shipped_profiles()
        hint = did_you_mean(text, known)
        raise DriftlineError(
            f"There is no profile {text!r}: neither a file nor a shipped one.{hint} Shipped: {', '.join(known)}."
        )
    return path


def _from_python(path: Path, attribute: str) -> Profile:
    """Runs the file: for the user's own process, and for workers."""
    if not path.is_file():
        raise DriftlineError(f"The profile {path} does not exist.")
    import runpy

    found = runpy.run_path(str(path)).get(attribute)
    if not isinstance(found, Profile):
        raise DriftlineError(f"{path} defines no Profile called {attribute!r}; write {attribute} = Profile(...).")
    return found
