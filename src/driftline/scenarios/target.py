"""Targets of scripts: `as-it-stands` runs the script with its own backend; other targets replace the backend.

Each may name a release of torch, whose environment then runs the whole script: `as-it-stands@2.11.0`.
"""

from __future__ import annotations

from collections.abc import Collection

from driftline.core.errors import DriftlineError
from driftline.core.target import Target, is_backend_name
from driftline.core.text import did_you_mean
from driftline.scenarios.requests import OWN_BACKEND

AS_IT_STANDS = "as-it-stands"
DYNAMO_ALONE = "dynamo:eager"  # Dynamo captures graphs, and runs them without a compiler
SCRIPT_BACKEND = "script-backend"  # in fingerprints: a backend function that the script passes to torch.compile

# Target -> backend of `torch.compile`; each has the stages of the one before it and more.
BACKEND_NAMES = {
    DYNAMO_ALONE: "eager",
    "aot_eager": "aot_eager",
    "aot_eager_decomp": "aot_eager_decomp_partition",
    "inductor": "inductor",
}
_BY_NAME = {name: backend for backend, name in BACKEND_NAMES.items()}


def require_script_target(target: Target) -> None:
    """Raise `DriftlineError` if scripts cannot run on the target."""
    known = (AS_IT_STANDS, *BACKEND_NAMES)
    if target.backend not in known:
        raise DriftlineError(
            f"{target}: a script that calls torch.compile runs on {', '.join(known)}."
            f"{did_you_mean(target.backend, known)}"
        )
    if target.options:
        raise DriftlineError(f"{target}: the options of torch.compile stand in the script; name the target alone.")


def backend_at_fault(target: Target, given: Collection[str]) -> str:
    """Return the compiler that a difference is attributed to: the target's own, or, for `as-it-stands`, the backends in
    `given` (see `Recorded.backends`)."""
    if target.backend != AS_IT_STANDS:
        return target.backend
    return "+".join(sorted({_spelled(name) for name in given})) or "inductor"


def _spelled(name: str) -> str:
    if name == OWN_BACKEND or not is_backend_name(name):
        return SCRIPT_BACKEND
    return _BY_NAME.get(name) or f"dynamo:{name}"
