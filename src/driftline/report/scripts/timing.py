"""How a script shows that a compiler is slow: it prints the CPU time of a call on both sides.

Only where the compiler's public interface gives a compiled function: a call that converts and compiles each time would
be timed with all of that.
"""

from __future__ import annotations

from driftline.core.quoting import string
from driftline.core.script_call import ScriptCall
from driftline.report.scripts.recipe import Check, Recipe

_SECONDS = """\
def seconds(call):
    \"\"\"The least CPU time of a call, in 20 rounds.\"\"\"
    call()
    calls = max(1, int(0.05 / max(timed(call, 1), 1e-5)))
    return min(timed(call, calls) / calls for _ in range(20))
"""
_TIMED = """\
def timed(call, calls):
    began = time.process_time()
    for _ in range(calls):
        call()
    return time.process_time() - began
"""


def timing_check(
    recipe: Recipe, call: ScriptCall, other: ScriptCall | None, names: tuple[str, str], limit: float
) -> Check:
    """The end of a script that times a compiler against another one; `other` is nothing for the function itself."""
    own_name, other_name = names
    lines, arguments = _arguments(recipe)
    lines += [f"own_function = {call.call}", f"other_function = {other.call if other else 'function'}"]
    lines += [f"{side} = seconds(lambda: {side}_function({arguments}))" for side in ("own", "other")]
    lines += [
        f'print({string(own_name)}, f"takes {{own * 1e3:.3f}} ms of CPU time,", '
        f'{string(other_name)}, f"{{other * 1e3:.3f}} ms")',
        f'sys.exit(f"BUG: {{own / other:.1f}} times as long" if own > {limit:g} * other else 0)',
    ]
    return Check(("import sys", "import time"), (_TIMED, _SECONDS), tuple(lines))


def _arguments(recipe: Recipe) -> tuple[list[str], str]:
    """Lines that make the arguments before anything is timed, and how a call takes them."""
    if not recipe.expected.startswith("call("):
        return [], recipe.expected.partition("(")[2].rstrip(")")
    lines = [
        "given = filled(example, iter(inputs().values()))",
        "args, kwargs = ((), given) if isinstance(given, dict) else (given, {})",
        "args = args if isinstance(args, (tuple, list)) else (args,)",
    ]
    return lines, "*args, **kwargs"
