"""The settings of a check, shared by the command, the web page, the pytest plugin and the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

from driftline.campaign.check.across import check_way
from driftline.campaign.check.session import check_strategy
from driftline.checking.accept import parse_accept
from driftline.checking.aspects import MOST_CALLS, Extent
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.target import Target, parse_targets
from driftline.inputs.sizes import Sizes
from driftline.oracle.choice import parse_oracle

Dims = Mapping[str, int | Sequence[int]]
Shapes = Mapping[str, Sequence[int] | Sequence[Sequence[int]]]


class CheckKeywords(TypedDict, total=False):
    """The settings of a check as keyword arguments of `driftline.check`; the fields of `CheckSettings`."""

    targets: Sequence[str] | None
    inputs: str
    samples: int
    dims: Dims | None
    shapes: Shapes | None
    grad: bool | None
    calls: int
    seed: int
    timeout: float
    memory: int
    signed_zero: bool
    lift: bool | None
    oracle: str
    accept: Sequence[str]
    stress: bool
    across: str
    pairwise: bool
    reference: str
    keep_reduced: bool
    usual: Sequence[str]


@dataclass(frozen=True)
class CheckSettings:
    """The settings of a check. Invalid settings raise DriftlineError when the object is made, before anything slow
    happens."""

    targets: Sequence[str] | None = None  # targets and presets; None: each available compiler that takes the program
    inputs: str = "example"  # a strategy, or an .npz file
    samples: int = 1
    dims: Dims | None = None  # sizes of the dimensions that the program leaves open, by name
    shapes: Shapes | None = None  # shapes of inputs, by name
    grad: bool | None = None  # compare gradients too; None: after the outputs, where the program asks for gradients
    calls: int = MOST_CALLS  # 1: the first call alone; 2: also other values; 3: also inputs of another size
    seed: int = 0
    timeout: float = 300.0  # seconds for one target
    memory: int = 8  # GiB for one target
    signed_zero: bool = False  # tell -0.0 from 0.0
    lift: bool | None = None  # also check a half-precision program in float32; None: unless it is large
    oracle: str = "shadow"  # or a plain tolerance, "allclose:rtol=R,atol=A"
    accept: Sequence[str] = ()  # policies of less precise arithmetic that count as correct
    stress: bool = False  # also call compiled programs from several threads
    across: str = ""  # "isa": run each compiler on every instruction set of this machine
    pairwise: bool = False  # compare all targets with each other
    reference: str = ""  # the program from which the checked one was made; its results are the expected ones
    keep_reduced: bool = False  # also store results that agree only at reduced precision as bugs
    # Names of settings ("targets", "accept") that come from a project's file: values that do not fit this program are
    # skipped. The same values typed by a user are an error.
    usual: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_strategy(self.inputs)
        parse_oracle(self.oracle)
        parse_accept(self.accept, "accept")
        if self.across:
            check_way(self.across)
        if not 1 <= self.calls <= MOST_CALLS:
            raise DriftlineError(f"calls={self.calls}: give a number from 1 to {MOST_CALLS}.")
        if self.lift and self.reference:
            raise DriftlineError("--lift makes another program, in float32; it cannot be used with --reference.")
        _ = self.sizes, self.wanted

    @cached_property
    def sizes(self) -> Sizes:
        """Return the input sizes that `dims` and `shapes` ask for."""
        return Sizes.of(self.dims or {}, self.shapes or {})

    @cached_property
    def wanted(self) -> list[Target] | None:
        """Return the targets by name, or None if none are named."""
        if self.targets is None:
            return None
        return list(dict.fromkeys(target for text in self.targets for target in parse_targets(text)))

    @property
    def extent(self) -> Extent:
        """Return what is compared besides the first call."""
        return Extent(self.calls, gradient=self.grad is None)

    def options(self, plugins: tuple[str, ...]) -> CheckOptions:
        """Return the part of the settings that is stored with a case."""
        return CheckOptions(
            grad=bool(self.grad),
            seed=self.seed,
            timeout=self.timeout,
            memory_limit=self.memory << 30,
            signed_zero=self.signed_zero,
            oracle=self.oracle,
            plugins=plugins,
            accept=parse_accept(self.accept, "accept"),
            stress=self.stress,
        )
