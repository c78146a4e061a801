"""How inputs are chosen: every strategy, by name. Nothing is imported until it is asked for.

Built-in strategies and those of plug-ins (entry-point group `driftline.inputs`) register alike.
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

    A strategy that looks at each tensor by itself implements `fill`. One that chooses the tensors together implements
    `draw` instead. This is the seam for inputs made by a solver: `draw` may be given the `program`, from which it can
    derive inputs that reach a goal (a NaN, an overflow, a difference of two legal lowerings). It is None when the
    caller has none, and a strategy must then still answer with valid inputs. Whatever the strategy, an input holds
    what its plan allows and nothing else: an index stays an index.
    """

    name: ClassVar[str]

    def draw(
        self, plans: Sequence[InputPlan], seed: str, edges: Sequence[float] = (), program: Program | None = None
    ) -> Inputs:
        """Inputs for a program whose operators change their behaviour at `edges`."""
        rng, at = generator(f"{self.name}/{seed}"), tuple(edges)
        return Inputs({plan.spec.name: self.fill(plan, rng, at) for plan in plans}, f"{self.name} seed={seed}")

    def fill(self, plan: InputPlan, rng: np.random.Generator, edges: tuple[float, ...]) -> Array:
        """One tensor."""
        raise NotImplementedError


INPUTS: Registry[InputStrategy] = Registry("input strategy", _BUILTIN, "driftline.inputs")


def register_inputs(cls: type[InputStrategy]) -> type[InputStrategy]:
    """Class decorator for plugins: `@register_inputs`."""
    INPUTS.register(cls.name, cls)
    return cls


def generator(seed: str) -> np.random.Generator:
    """Random numbers from a text, the same in every process (`hash` is not)."""
    return np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "little")))
