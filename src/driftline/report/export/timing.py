"""The script of a finding that is about speed: it prints both times, and is run in a clean process before it is called
valid."""

from __future__ import annotations

import re
from dataclasses import replace

from driftline.core.case import Case
from driftline.core.script_call import ScriptCall
from driftline.core.target import Target
from driftline.report.export.clean_run import run_clean
from driftline.report.export.script import Exported
from driftline.report.scripts.calls import first_call
from driftline.report.scripts.render import check_script, make_recipe
from driftline.report.scripts.timing import timing_check
from driftline.store import Bug

_EAGER = "eager"


def export_timing(bug: Bug, case: Case, baseline: Target, limit: float) -> Exported:
    """The script of a slow program. What has no such script says why."""
    target = Target.parse(bug.findings[0].target)
    if case.program.framework != "torch" or case.program.form != "source":
        return Exported("", False, f"{case.program.name} is no torch program in Python; driftline replay measures it")
    if target.backend == _EAGER or target.device != "cpu" or baseline.device != "cpu":
        return Exported("", False, "a script times compiled code on the CPU alone; driftline replay measures it")
    call, other = (None if one.backend == _EAGER else first_call(one, "torch") for one in (target, baseline))
    for one, found in ((target, call), (baseline, other)):
        if one.backend != _EAGER and (found is None or found.gives_results):
            return Exported(
                "", False, f"{one} has no short call that gives a compiled function; driftline replay measures it"
            )
    assert call  # the target is not eager
    other = _with_own_names(other) if other else None
    own_inputs = case.samples[0].origin == "example"
    recipe = make_recipe(
        case.program, case.samples[0].arrays, target, own_inputs=own_inputs, call=call, room=0, seed=case.options.seed
    )
    recipe = replace(
        recipe,
        left_out=(),  # any numbers of these shapes take as long
        imports=(*recipe.imports, *(other.imports if other else ())),
        definitions=(*recipe.definitions, *([other.text] if other and other.text else [])),
    )
    names = (str(target), str(baseline))
    text = check_script(recipe, timing_check(recipe, call, other, names, limit), (f"{target} {bug.summary}",))
    ran = run_clean(text)
    if not ran.shows_bug:
        return Exported(text, False, f"in a clean process the difference does not show: {ran.ending}", ran.output)
    same = timing_check(recipe, replace(call, call="function"), None, names, limit)
    if (control := run_clean(check_script(recipe, same))).status != 0:
        return Exported(text, False, f"a function against itself should end with 0, but {control.ending}", ran.output)
    return Exported(text, True, "run in a clean process: it shows the difference, exit status 1", ran.output)


def _with_own_names(call: ScriptCall) -> ScriptCall:
    """The call with another name for the function that it defines: two forms of one compiler call theirs alike."""
    if not call.text:
        return call
    old, new = rf"\b{re.escape(call.function)}\b", f"other_{call.function}"
    return replace(call, call=re.sub(old, new, call.call), text=re.sub(old, new, call.text))
