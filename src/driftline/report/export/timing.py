"""Export a script for a finding about speed. The script prints both times and is run in a clean process before it is
called valid.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from driftline.core.case import Case
from driftline.core.program import Program
from driftline.core.script_call import ScriptCall
from driftline.core.target import Target
from driftline.report.export.clean_run import run_clean
from driftline.report.export.script import Exported
from driftline.report.export.subject import installed_version
from driftline.report.scripts.calls import first_call
from driftline.report.scripts.parts import EXPORTED
from driftline.report.scripts.recipe import Recipe
from driftline.report.scripts.recipe_torch import as_module
from driftline.report.scripts.render import check_script, make_recipe
from driftline.report.scripts.timing import TimedSide, timing_check

_EAGER = Target("eager")
_REPLAY = "driftline replay measures it"


@dataclass(frozen=True)
class SideCall:
    """How a script runs one side: the compiler's call, and whether it takes the ONNX model."""

    target: Target
    call: ScriptCall | None  # None: the program itself is called
    through_model: bool = False

    prepared: str = "prepared"  # the name of the function that compiles an ONNX model

    @property
    def text(self) -> str:
        if self.call is None:
            return ""
        return self.call.prepared if self.through_model else self.call.text


def export_timing(target: Target, case: Case, baseline: Target, limit: float, sentence: str) -> Exported:
    """Write the script that shows a slow program and run it, or return the reason why there is no such script.

    `sentence` says what was measured.
    """
    if problem := _unsupported(case.program, target, baseline):
        return Exported("", False, f"{problem}; {_REPLAY}")
    framework = case.program.framework
    own, other = call_of(target, framework), call_of(baseline, framework)
    if own is None or other is None:
        name = target if own is None else baseline
        return Exported("", False, f"{name} has no short call that runs what was compiled before; {_REPLAY}")
    if target.backend == baseline.backend and _setup(own) != _setup(other):
        return Exported("", False, f"a setting of {target.backend} holds for all that a script compiles; {_REPLAY}")
    other = _with_own_names(other) if other.text == own.text or _defines(own) & _defines(other) else other
    recipe, arguments = recipe_of(case, (own, other))
    if any(side.through_model for side in (own, other)) and arguments != "*inputs" and framework == "torch":
        return Exported("", False, f"its inputs are no plain list, which an exporter needs; {_REPLAY}")
    setup = tuple(dict.fromkeys((*_setup(own), *_setup(other))))
    timed = (_timed(own, arguments, framework), _timed(other, arguments, framework))
    pins = [f"{name}=={version}" for name in recipe.packages if (version := installed_version(name))]
    text = check_script(recipe, timing_check(timed, setup, limit), (f"{target} {sentence}",), pins)
    return _tried(text, control=check_script(recipe, timing_check((timed[1], timed[1]), setup, limit)))


def _unsupported(program: Program, target: Target, baseline: Target) -> str:
    """Return the reason why no script can time these targets on this program; empty if a script can."""
    framework = program.framework
    if framework not in ("torch", "onnx") or (framework == "torch" and program.form != "source"):
        return f"{program.name} is neither a torch program in Python nor an ONNX model"
    if target.device != "cpu" or baseline.device != "cpu":
        return "a script times compiled code on the CPU alone"
    if target.version or baseline.version:
        return "a script has one release of a compiler"
    return ""


def _tried(text: str, control: str) -> Exported:
    """Run a script in a clean process. `control` times the baseline against itself and must end with 0."""
    ran = run_clean(text)
    if not ran.shows_bug:
        return Exported(text, False, f"in a clean process the difference does not show: {ran.ending}", ran.output)
    if (own := run_clean(control)).status != 0:
        return Exported(text, False, f"a call against itself should end with 0, but {own.ending}", ran.output)
    return Exported(text, True, "run in a clean process: it shows the difference, exit status 1", ran.output)


def call_of(target: Target, framework: str) -> SideCall | None:
    """Return how a script runs a target, or None if that takes more than a few lines."""
    if target.backend == _EAGER.backend:
        return SideCall(target, None) if framework == "torch" else None
    call = first_call(target, framework)
    if framework == "torch" and call and not call.gives_results:
        return SideCall(target, call)
    call = first_call(target, "onnx")
    return SideCall(target, call, through_model=True) if call and call.prepared else None


def _setup(side: SideCall) -> tuple[str, ...]:
    return side.call.setup if side.call else ()


def recipe_of(case: Case, sides: Sequence[SideCall]) -> tuple[Recipe, str]:
    """Return a recipe with the program, its inputs and the definitions of both sides, and the arguments of a call of
    the program.
    """
    program, sample = case.program, case.samples[0]
    recipe = make_recipe(
        program, sample.arrays, _EAGER, own_inputs=sample.origin == "example", room=0, seed=case.options.seed
    )
    torch = program.framework == "torch"
    lines, arguments = _arguments(recipe) if torch else ([], "")
    exporting = torch and any(side.through_model for side in sides)
    recipe = as_module(recipe) if exporting else recipe
    calls = [side.call for side in sides if side.call]
    packages = [*recipe.packages, *(package for call in calls for package in call.packages)]
    recipe = replace(
        recipe,
        left_out=(),  # any numbers of these shapes take as long
        packages=tuple(dict.fromkeys([*packages, *(["onnx", "onnxscript", "numpy"] if exporting else [])])),
        imports=(*recipe.imports, *(line for call in calls for line in call.imports)),
        definitions=(
            *recipe.definitions,
            *([EXPORTED] if exporting else []),
            *(side.text for side in sides if side.text),
        ),
        setup=(*(["torch.set_num_threads(1)"] if torch else []), *recipe.setup, *lines),
    )
    return recipe, arguments


def _timed(side: SideCall, arguments: str, framework: str) -> TimedSide:
    name = str(side.target)
    if side.call is None:
        return TimedSide(name, f"lambda: function({arguments})")
    if not side.through_model:
        return TimedSide(name, f"(lambda compiled: lambda: compiled({arguments}))({side.call.call})")
    given = "model, inputs" if framework == "onnx" else f"*exported(function, {arguments})"
    return TimedSide(name, f"{side.prepared}({given})")


def _arguments(recipe: Recipe) -> tuple[list[str], str]:
    """Return lines that create the arguments before timing starts, and the argument list of a call."""
    if not recipe.expected.startswith("call("):
        return [], recipe.expected.partition("(")[2].removesuffix(")")
    lines = [
        "given = filled(example, iter(inputs().values()))",
        "args, kwargs = ((), given) if isinstance(given, dict) else (given, {})",
        "args = args if isinstance(args, (tuple, list)) else (args,)",
    ]
    return lines, "*args, **kwargs"


def _defines(side: SideCall) -> set[str]:
    """Return the names of the functions and classes that a side defines."""
    return set(re.findall(r"^(?:def|class) (\w+)", side.text, re.MULTILINE))


def _with_own_names(side: SideCall) -> SideCall:
    """Rename the definitions of a side, since two sides of one compiler use the same names."""
    call = side.call
    if call is None:
        return side

    def renamed(text: str) -> str:
        for name in _defines(side):
            text = re.sub(rf"\b{name}\b", f"other_{name}", text)
        return text

    call = replace(call, call=renamed(call.call), text=renamed(call.text), prepared=renamed(call.prepared))
    return replace(side, call=call, prepared=renamed(side.prepared))
