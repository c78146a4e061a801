"""Registry of the input strategies, by name. A strategy is imported when it is first used.

Built-in strategies and those of plug-ins (entry-point group `driftline.inputs`) register in the same way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from driftline.core.case import Inputs
from driftline.core.program import Program
from driftline.core.registry import Registry
from driftline.core.tensors import Array
from driftline.inputs.plan import InputPlan

_BUILTIN = {
    "random": "driftline.inputs.ordinary:RandomValues",
    "specials": "driftline.inputs.special:SpecialValues",
    "nan": "driftline.inputs.special:OneNan",
    "infinities": "driftline.inputs.special:Infinities",
    "boundary": "driftline.inputs.boundary:BoundaryValues",
    "symbolic": "driftline.inputs.solved:SolvedValues",
}


class InputStrategy:
    """Base class of all strategies: fills the planned tensors, the same way for the same seed.

    A strategy that fills each tensor independently implements `fill`. One that chooses the tensors together implements
    `draw` instead: for example a solver, which may use `program` to derive inputs that reach a goal (a NaN, an
    overflow, a difference of two legal lowerings). `program` is None if the caller has none, and the strategy must then
    still return valid inputs. Every input must satisfy its plan: an index stays a valid index.
    """

    name: ClassVar[str]

    def draw(
        self, plans: Sequence[InputPlan], seed: str, edges: Sequence[float] = (), program: Program | None = None
    ) -> Inputs:
        """Return inputs for a program whose operators change their behaviour at `edges`."""
        rng, at = generator(f"{self.name}/{seed}"), tuple(edges)
        return Inputs({plan.spec.name: self.fill(plan, rng, at) for plan in plans}, f"{self.name} seed={seed}")

    def fill(self, plan: InputPlan, rng: np.random.Generator, edges: tuple[float, ...]) -> Array:
        """Return one tensor that satisfies the plan."""
        raise NotImplementedError


INPUTS: Registry[InputStrategy] = Registry("input strategy", _BUILTIN, "driftline.inputs")


def register_inputs(cls: type[InputStrategy]) -> type[InputStrategy]:
    """Class decorator for plugins: `@register_inputs`."""
    INPUTS.register(cls.name, cls)
    return cls


def generator(seed: str) -> np.random.Generator:
    """Return a random generator seeded by a text. Unlike `hash`, the seed is the same in every process."""
    return np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "little")))
