"""The data classes of causes. The fields are those of a cause's file; docs/how-to/causes.md explains each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftline.core.evidence import Fault, InputClass, Number, Region
from driftline.core.text import to_json

REDUCED = "reduced-precision"
OF_VALUES = ("wrong-value", "wrong-nan-inf", "bias", REDUCED)
# Faults that any wrong number has: alone they tell one cause from another no better than the operator does.
PLAIN_FAULTS = (Fault.NUMBER, Fault.ILL_CONDITIONED, Fault.OTHER)
WIDER = {"float64", "complex128"}  # than float32
PLAIN_REGIONS = (Region.ALL, Region.SCATTERED)


@dataclass(frozen=True, order=True)
class Question:
    """A test of the failing case: does it pass with an option, in a dtype, without a class of inputs, or with a setting
    of its operators (see `settings`) unset?
    """

    what: str  # with, in, without, unset
    value: str

    def __str__(self) -> str:
        return f"passes {self.what} {self.value}"


@dataclass(frozen=True)
class Experiment:
    """Conditions under which the failing case must have been seen to pass. Empty fields are not tested."""

    passes_with: str = ""  # an option of the target, as in optimization=off
    passes_in: str = ""  # a dtype
    passes_without: str = ""  # an InputClass
    passes_unset: str = ""  # an attribute or optional input

    @property
    def questions(self) -> tuple[Question, ...]:
        asked = (
            ("with", self.passes_with), ("in", self.passes_in), ("without", self.passes_without),
            ("unset", self.passes_unset),
        )  # fmt: skip
        return tuple(Question(what, value) for what, value in asked if value)


@dataclass(frozen=True)
class Witness:
    """A program that shows the cause on a target."""

    target: str
    program: str  # Python text with a function `program`


@dataclass(frozen=True)
class Neighbour:
    """A program that fails in a similar way and must not be explained by the cause."""

    target: str
    program: str
    plant: str = ""  # a fault planted into the compiler's results, unless the program fails by itself


@dataclass(frozen=True)
class Cause:
    """A hypothesis about one defect of one compiler. Empty conditions match any failure."""

    id: str  # compiler/name, from where the file lies
    title: str
    compiler: str
    kinds: tuple[str, ...]
    witness: Witness
    neighbour: Neighbour | None = None
    seen: tuple[str, ...] = ()
    fixed: str = ""
    machines: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    operators: tuple[frozenset[str], ...] = ()  # each by its common name; several in one set: together
    spelled: tuple[str, ...] = ()  # the same as the file writes them
    dtypes: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    narrower: str = ""
    rounded_to: str = ""  # a float type that the wrong integers went through
    off_by: tuple[Number, ...] = ()  # the least and the largest distance between the actual and the expected value
    empty: bool = False  # an input has no elements
    later_call: bool = False  # the first call of the compiled program is right
    settings: tuple[str, ...] = ()  # attributes and optional inputs that the failing program has, all of them
    regions: tuple[Region, ...] = ()
    got: tuple[Number, ...] = ()
    expected: tuple[Number, ...] = ()
    needs: tuple[InputClass, ...] = ()
    policies: tuple[str, ...] = ()
    exception: str = ""
    message: str = ""
    signal: str = ""
    options: tuple[tuple[str, str], ...] = ()
    experiment: Experiment = Experiment()
    reported: str = ""
    debatable: str = ""
    accepted: bool = False  # a user's own: its bugs do not count
    example: str = ""  # file of examples/bugs that tells it at length
    fails_on: tuple[str, ...] = ()  # targets on which the example was seen to fail
    passes_on: tuple[str, ...] = ()  # and to pass: a release with the fix, or the culprit switched off
    path: Path | None = None

    @property
    def questions(self) -> tuple[Question, ...]:
        """All tests of a case that are needed before this cause can explain it."""
        needs = (Question("without", str(one)) for one in self.needs)
        return tuple(dict.fromkeys((*needs, *self.experiment.questions)))

    @property
    def telling(self) -> bool:
        """True if some condition on the evidence is not met by every wrong number of the same operator."""
        return bool(
            self.narrower
            or self.rounded_to
            or self.off_by
            or self.empty
            or self.later_call
            or self.settings
            or self.got
            or self.expected
            or self.needs
            or self.policies
            or self.experiment.passes_with
            or self.experiment.passes_without
            or self.experiment.passes_unset
            or self._fails_in_wider_types_only
            or (self.faults and not set(self.faults) & set(PLAIN_FAULTS))
            or (self.regions and not set(self.regions) & set(PLAIN_REGIONS))
        )

    @property
    def _fails_in_wider_types_only(self) -> bool:
        """True if the cause requires a failure in wider types that passes in float32. That is special, since an
        operator that is wrong in float64 is normally wrong in float32 too. (Errors so small that float32 hides them are
        of kind reduced-precision.)
        """
        return self.experiment.passes_in == "float32" and bool(self.dtypes) and set(self.dtypes) <= WIDER

    def conditions(self) -> Iterator[tuple[str, str]]:
        """Yield the conditions that a failure must meet, as (name, words) pairs. Unset conditions are left out."""
        for name, value in (
            ("kinds", self.kinds), ("stages", self.stages), ("operators", self.spelled), ("dtypes", self.dtypes),
            ("machines", self.machines), ("options", tuple(f"{key}={value}" for key, value in self.options)),
            ("faults", self.faults), ("narrower", self.narrower), ("rounded_to", self.rounded_to),
            ("off_by", self.off_by), ("empty", "an input has no elements" if self.empty else ""),
            ("later_call", "the first call is right" if self.later_call else ""), ("settings", self.settings),
            ("regions", self.regions), ("got", self.got),
            ("expected", self.expected), ("policies", self.policies), ("exception", self.exception),
            ("message", self.message), ("signal", self.signal), ("tried on the case", self.questions),
        ):  # fmt: skip
            if value:
                yield name, value if isinstance(value, str) else ", ".join(str(one) for one in value)

    def note(self) -> dict[str, Any]:
        """Return the fields of the cause that are stored with each bug it explains."""
        return {
            "id": self.id,
            "title": self.title,
            "reported": self.reported,
            "debatable": self.debatable,
            "accepted": self.accepted,
        }

    def to_json(self) -> dict[str, Any]:
        neighbour = self.neighbour
        return {
            **self.note(),
            "compiler": self.compiler,
            "seen": list(self.seen),
            "fixed": self.fixed,
            "example": self.example,
            "fails_on": list(self.fails_on),
            "passes_on": list(self.passes_on),
            "conditions": dict(self.conditions()),
            "witness": vars(self.witness),
            "neighbour": vars(neighbour) if neighbour else None,
            "file": str(self.path) if self.path else None,
        }

    def __str__(self) -> str:
        return to_json(self.to_json())
