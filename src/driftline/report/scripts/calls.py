"""Look up the calls of a target's compiler that a script may use; the backend defines them."""

from __future__ import annotations

from dataclasses import replace

from driftline.backends import BACKENDS
from driftline.core.script_call import ScriptCall
from driftline.core.target import Target
from driftline.report.scripts.parts import EXPORT


def script_calls(target: Target, framework: str) -> list[ScriptCall]:
    """Return the calls for a program of the framework, the best first; empty if the compiler has no short call."""
    if target.backend not in BACKENDS:  # of a plugin that is not loaded: a store is read without it too
        return []
    backend, options = BACKENDS.get(target.backend), dict(target.options)
    calls = list(backend.script_calls(framework, options))
    if not calls and framework == "torch":
        return [_exporting(call) for call in backend.script_calls("onnx", options)]
    return calls


def first_call(target: Target, framework: str) -> ScriptCall | None:
    """Return the best call for a program of the framework, or None."""
    return next(iter(script_calls(target, framework)), None)


def _exporting(call: ScriptCall) -> ScriptCall:
    """Wrap a call that takes an ONNX model so that it exports a torch program first."""
    text = EXPORT.format(call=call.call)
    return replace(
        call,
        call="converted(function, *inputs)",
        text=f"{call.text.strip()}\n\n\n{text}" if call.text else text,
        packages=("onnx", "onnxscript", *call.packages),
        arrays=True,
        once="",
    )
