"""Export a script for a finding about compile time or memory that grows faster than the program.

The script is run in a clean process before it is called valid; the same script without the compiler must show no
growth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from driftline.core.case import Case
from driftline.core.program import Program
from driftline.core.quoting import string
from driftline.core.target import Target
from driftline.core.verdict import Kind
from driftline.report.export.clean_run import run_clean
from driftline.report.export.script import Exported
from driftline.report.export.subject import installed_version
from driftline.report.export.timing import call_of, recipe_of
from driftline.report.scripts.growth import REPEATED, REPEATED_MODEL, Compiling, growth_check
from driftline.report.scripts.render import check_script

_REPLAY = "driftline replay measures it"
_LIMIT = 900.0  # seconds: it compiles every size


def export_growth(
    target: Target, case: Case, sizes: Mapping[int, int], kind: str, *, limit: float, least: float, sentence: str
) -> Exported:
    """Write the script that shows the growth and run it, or return the reason why there is no such script.

    `sizes` maps numbers of nodes to numbers of copies; `least` is a bound in seconds or bytes.
    """
    program = case.program
    if target.device != "cpu" or target.version:
        return Exported("", False, f"a script has the release that is here, on the CPU; {_REPLAY}")
    side = call_of(target, program.framework) if program.framework in ("torch", "onnx") else None
    if side is None or side.call is None:
        return Exported("", False, f"{target} has no short call that compiles {program.name}; {_REPLAY}")
    recipe, arguments = recipe_of(case, (side,))
    if program.form == "onnx":
        place = _place(program)
        if not place:
            return Exported("", False, f"no input of {program.name} takes its result, or it has subgraphs; {_REPLAY}")
        repeat = f"model = repeated_model(model, {string(place)}, copies)"
        compiling = Compiling(REPEATED_MODEL, (*side.call.setup, repeat), f"{side.prepared}(model, inputs)()")
        plain = Compiling(REPEATED_MODEL, (repeat,), "onnx.checker.check_model(model)")
    elif program.form == "source" and arguments == "*inputs":
        repeat = "repeated = Repeated(function, inputs, copies)"
        call = re.sub(r"\bfunction\b", "repeated", side.call.call) + "(*inputs)"  # options may have it in their names
        compiling = Compiling(REPEATED, (*side.call.setup, repeat), call)
        if side.through_model:
            export = "model, arrays = exported(repeated, *inputs)"
            compiling = Compiling(REPEATED, (*side.call.setup, repeat, export), f"{side.prepared}(model, arrays)()")
        plain = Compiling(REPEATED, (repeat,), "repeated(*inputs)")
    else:
        return Exported("", False, f"{program.name} has no plain list of tensors as inputs; {_REPLAY}")
    memory = kind == Kind.MEMORY
    bound = least / (1 << 20) if memory else least
    check = growth_check(compiling, sizes, memory=memory, limit=limit, least=bound)
    pins = [f"{name}=={version}" for name in recipe.packages if (version := installed_version(name))]
    text = check_script(recipe, check, (f"{target} {sentence}",), pins)
    ran = run_clean(text, limit=_LIMIT)
    if not ran.shows_bug:
        return Exported(text, False, f"in a clean process the growth does not show: {ran.ending}", ran.output)
    unbuilt = growth_check(plain, sizes, memory=memory, limit=limit, least=bound)
    if (control := run_clean(check_script(recipe, unbuilt), limit=_LIMIT)).status != 0:
        return Exported(text, False, f"uncompiled it should end with 0, but {control.ending}", ran.output)
    return Exported(text, True, "run in a clean process: it shows the growth, exit status 1", ran.output)


def _place(program: Program) -> str:
    """Return the input of an ONNX model to which its result can be fed, or an empty string if there is none or the
    model has subgraphs.
    """
    import onnx

    from driftline.programs.onnx.repeated import fed_input

    model = onnx.load(str(program.path), load_external_data=False)
    nested = any(
        attribute.HasField("g") or attribute.graphs for node in model.graph.node for attribute in node.attribute
    )
    return "" if nested else fed_input(model)
