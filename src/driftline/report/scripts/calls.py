"""The calls of a target's compiler that a script may use, as its backend says them."""

from __future__ import annotations

from dataclasses import replace

from driftline.backends import BACKENDS
from driftline.core.script_call import ScriptCall
from driftline.core.target import Target
from driftline.report.scripts.parts import EXPORT


def script_calls(target: Target, framework: str) -> list[ScriptCall]:
    """The calls for a program of a framework, the best first; none when the compiler has no short one."""
    if target.backend not in BACKENDS:  # of a plugin that is not loaded: a store is read without it too
        return []
    backend, options = BACKENDS.get(target.backend), dict(target.options)
    calls = list(backend.script_calls(framework, options))
    if not calls and framework == "torch":
        return [_exporting(call) for call in backend.script_calls("onnx", options)]
    return calls


def first_call(target: Target, framework: str) -> ScriptCall | None:
    return next(iter(script_calls(target, framework)), None)


def _exporting(call: ScriptCall) -> ScriptCall:
    """From a torch program to an ONNX model, which the call runs."""
    text = EXPORT.format(call=call.call)
    return replace(
        call,
        call="converted(function, *inputs)",
        text=f"{call.text.strip()}\n\n\n{text}" if call.text else text,
        packages=("onnx", "onnxscript", *call.packages),
        arrays=True,
        once="",
    )
