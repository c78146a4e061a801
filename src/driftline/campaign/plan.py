"""What a hunt is asked to do: which targets, which generators, how long. Stored with the hunt, so it can be resumed."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driftline.backends import BACKENDS
from driftline.backends.base import Backend
from driftline.backends.presets import holds, is_preset
from driftline.campaign.session import each_backend, require_target
from driftline.checking.checker import Skipped
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.store import Store
from driftline.store.hunts import Hunt, HuntLog

FORM_OF = {"onnx": "onnx", "source:torch": "torch", "source:jax": "jax"}  # what a backend takes -> what we write
# Not hunted unless asked for by name, and why.
LEFT_OUT = {
    "aot_eager": "aot_eager_decomp does the same and more",
    "aotinductor": "it compiles like inductor, and takes half a minute for each program",
}


@dataclass(frozen=True)
class HuntPlan:
    """What was asked for."""

    targets: tuple[str, ...]
    generators: tuple[str, ...]
    inputs: tuple[str, ...] = ("random", "specials", "boundary")
    seed: int = 0
    seconds: float = 600.0  # 0: no limit
    programs: int = 0  # for each target; 0: no limit
    timeout: float = 60.0  # seconds for one program
    plugins: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "targets": list(self.targets),
            "generators": list(self.generators),
            "inputs": list(self.inputs),
            "seed": self.seed,
            "seconds": self.seconds,
            "programs": self.programs,
            "timeout": self.timeout,
            "plugins": list(self.plugins),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> HuntPlan:
        known: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        return HuntPlan(**known)


def form_of(backend: Backend) -> str | None:
    """The language in which programs for this backend are written."""
    return next((FORM_OF[form] for form in backend.accepts if form in FORM_OF), None)


def choose_lanes(wanted: Sequence[Target] | None) -> tuple[list[Target], list[Skipped]]:
    """The targets to hunt on: those asked for, or all that are here and for which programs can be written."""
    if wanted is not None:
        presets = [target for target in wanted if is_preset(target)]
        if presets:
            every, missing = choose_lanes(None)
            held = [t for t in every if any(holds(preset.backend, t.backend) for preset in presets)]
            named = [target for target in wanted if target not in presets]
            return list(dict.fromkeys([*held, *(choose_lanes(named)[0] if named else ())])), missing
        for target in wanted:
            require_target(target)
            if form_of(BACKENDS.get(target.backend)) is None:
                raise DriftlineError(
                    f"No generator writes programs for {target}; it can only be given programs with driftline check."
                )
        return list(wanted), []
    chosen, skipped = [], []
    for target, backend in each_backend():
        if isinstance(backend, Skipped):
            skipped.append(backend)
            continue
        found = backend.installed()
        if backend.reference or target.backend.startswith("dynamo:"):
            continue
        if target.backend in LEFT_OUT:
            skipped.append(Skipped(target, LEFT_OUT[target.backend]))
        elif form_of(backend) is None:
            skipped.append(Skipped(target, "no generator writes programs for it yet"))
        elif not found.available:
            skipped.append(Skipped(target, f"{found.reason}; {backend.install_command}"))
        else:
            chosen.append(target)
    if not chosen:
        raise DriftlineError("No compiler is available to hunt on; driftline doctor says what to install.")
    return chosen, skipped


def resumable(store: Store, *, more_time: bool = False) -> tuple[Hunt, HuntPlan]:
    """The hunt to go on with: the last one that did not come to its end, and that nobody else is at. With `more_time`,
    also the last one if its time was spent: it has suspects that nobody looked at, and there are always more
    programs."""
    log = HuntLog(store)
    unfinished = log.unfinished()
    if not unfinished and more_time and (ended := log.hunts()):
        log.reopen(ended[-1])
        unfinished = [log.hunt(ended[-1].id)]
    for hunt in unfinished:
        with contextlib.suppress(DriftlineError), locked(store, hunt):
            return hunt, HuntPlan.from_json(hunt.plan)
    if unfinished:
        raise DriftlineError(
            f"The hunt {unfinished[0].id} in {store.path} is being run by another process; wait for it, or start a"
            " new hunt without --resume."
        )
    raise DriftlineError(f"There is no unfinished hunt in {store.path}; leave out --resume to start one.")


@contextlib.contextmanager
def locked(store: Store, hunt: Hunt) -> Iterator[None]:
    """A hunt is run by one process at a time; the system takes the lock back when that process dies."""
    path = store.path / f"hunt-{hunt.id}.lock"
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DriftlineError(
                f"The hunt {hunt.id} in {store.path} is being run by another process; wait for it, or start a new hunt."
            ) from error
        yield
