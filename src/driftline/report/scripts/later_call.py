"""Write scripts for bugs that a first call does not show: they compile once and make the earlier calls before the
failing one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from driftline.core.case import Inputs
from driftline.core.program import Program
from driftline.core.script_call import ScriptCall
from driftline.core.target import Target
from driftline.report.scripts.calls import script_calls
from driftline.report.scripts.recipe import INPUTS, ROOM, Recipe, given_inputs
from driftline.report.scripts.render import make_recipe

_ONCE = "compile_once(model, inputs)"


def later_call_recipe(
    program: Program, samples: Sequence[Inputs], target: Target, *, grad: bool = False, seed: int = 0, room: int = ROOM
) -> Recipe | None:
    """Return a recipe that fails at the last of the samples. None if the compiler has no short call that only compiles,
    if the program's factory makes the inputs, or if they take too much room.
    """
    calls = (_that_compiles(call) for call in script_calls(target, program.framework))
    call = next((call for call in calls if call), None)
    if call is None:
        return None
    room //= len(samples)
    made = [make_recipe(program, one.arrays, target, grad=grad, seed=seed, room=room, call=call) for one in samples]
    return _joined(made, _ONCE if call.once else call.call)


def _that_compiles(call: ScriptCall) -> ScriptCall | None:
    if not call.gives_results:
        return call
    return replace(call, call=f"{_ONCE}(inputs)", text=call.once, text_for={}) if call.once else None


def _joined(recipes: Sequence[Recipe], compiling: str) -> Recipe | None:
    """Merge recipes that differ only in their inputs. `compiling`: the expression in each recipe that compiles the
    program.
    """
    last, given = recipes[-1], [given_inputs(recipe) for recipe in recipes]
    if not all(given) or any(recipe.left_out for recipe in recipes) or last.got.count(compiling) != 1:
        return None
    got = last.got.replace(compiling, "compiled")
    kept = [line for line in last.setup if not line.startswith(INPUTS)]
    # Names for NaN and Inf, and functions that unpack values, if only an earlier call needs them.
    more = [line for one in recipes for line in one.setup if not line.startswith(INPUTS) and line not in kept]
    text = [part for one in recipes for part in one.definitions if part not in last.definitions]
    first, *others = given[:-1]
    lines = [f"{INPUTS}{first}", f"compiled = {compiling}", f"{got}  # right"]
    for arrays in others:
        lines += [f"{INPUTS}{arrays}", got]
    return replace(
        last,
        imports=tuple(dict.fromkeys(line for one in recipes for line in one.imports)),
        definitions=(*dict.fromkeys(text), *last.definitions),
        setup=(*dict.fromkeys(more), *kept, *lines, f"{INPUTS}{given[-1]}"),
        got=got,
    )
