"""The plan of a hunt: its targets, generators, and limits. It is stored with the hunt, so that the hunt can be
resumed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from driftline.backends import BACKENDS
from driftline.backends.presets import holds, is_preset
from driftline.campaign.check.forms import form_of
from driftline.campaign.check.session import each_backend, require_target
from driftline.campaign.hunt.reducing import not_reduced
from driftline.checking.checker import Skipped
from driftline.core.errors import DriftlineError
from driftline.core.plugins import approved
from driftline.core.private import lock, open_lock
from driftline.core.target import Target
from driftline.core.wire import decode, encode
from driftline.llm.allowance import Allowance
from driftline.llm.settings import LlmSettings
from driftline.store import Store
from driftline.store.hunts import Hunt, HuntLog


@dataclass(frozen=True)
class ModelPlan:
    """The language model of a hunt: the settings on which its answers depend, and how much it may spend."""

    model: str
    analysis_model: str = ""
    tokens: int | None = None
    cost: float | None = None
    temperature: float = LlmSettings.temperature
    max_tokens: int = LlmSettings.max_tokens
    connections: int = LlmSettings.connections
    price_in: float | None = None
    price_out: float | None = None

    @staticmethod
    def of(settings: LlmSettings, allowance: Allowance) -> ModelPlan:
        told = {one.name: getattr(settings, one.name) for one in fields(ModelPlan) if hasattr(settings, one.name)}
        return ModelPlan(**told | {"tokens": allowance.tokens, "cost": allowance.cost})

    def settings(self, now: LlmSettings) -> LlmSettings:
        """Return the settings of this hunt, with the current address and key of `now`."""
        told = {one.name: getattr(self, one.name) for one in fields(ModelPlan) if hasattr(now, one.name)}
        return replace(now, **{name: value for name, value in told.items() if name != "cost"})


@dataclass(frozen=True)
class HuntPlan:
    """The targets, generators, inputs and limits of a hunt."""

    targets: tuple[str, ...]
    generators: tuple[str, ...]
    inputs: tuple[str, ...] = ("random", "specials", "boundary", "symbolic")
    seed: int = 0
    seconds: float = 600.0  # 0: no limit
    programs: int = 0  # for each target; 0: no limit
    timeout: float = 60.0  # seconds for one program
    plugins: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()  # as for check --accept
    llm: ModelPlan | None = None  # settings of the generator `llm`
    shard: str = ""  # such as 3/8: one of several parts; empty: all of it
    least: int = 0  # judged programs that each target gets even if the time is exceeded

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
            "accept": list(self.accept),
            **({"llm": encode(ModelPlan, self.llm)} if self.llm else {}),
            **({"shard": self.shard} if self.shard else {}),
            **({"least": self.least} if self.least else {}),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> HuntPlan:
        known: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        if "llm" in known:
            known["llm"] = decode(ModelPlan, known["llm"])
        return HuntPlan(**known)


def resumed_plan(store: Store, *, seconds: float = 0.0, programs: int = 0, number: int = 0) -> tuple[Hunt, HuntPlan]:
    """Return the hunt to resume (the last one, or `number`) and its plan, with another limit if one is given. Limits
    count from the beginning of the hunt."""
    going, plan = resumable(store, more_time=bool(seconds or programs), number=number)
    if seconds and seconds <= going.seconds:
        raise DriftlineError(
            f"A budget of {seconds:.0f} s counts from the beginning of the hunt, which has run for"
            f" {going.seconds:.0f} s already; give more than that."
        )
    plan = replace(plan, plugins=approved(plan.plugins, f"The hunt of {store.path}"))
    return going, replace(plan, seconds=seconds, programs=programs) if seconds or programs else plan


def last_model(store: Store) -> ModelPlan | None:
    """Return the model settings of the last hunt that used a model, which a replay repeats, or None."""
    return next(
        (plan.llm for hunt in reversed(HuntLog(store).hunts()) if (plan := HuntPlan.from_json(hunt.plan)).llm), None
    )


def choose_lanes(wanted: Sequence[Target] | None) -> tuple[list[Target], list[Skipped]]:
    """Return the targets to hunt on and the skipped ones: the targets asked for, or all installed ones for which
    programs can be written."""
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
        if backend.reference:
            continue
        if backend.not_hunted:
            skipped.append(Skipped(target, backend.not_hunted))
        elif form_of(backend) is None:
            skipped.append(Skipped(target, "no generator writes programs for it yet"))
        elif not found.available:
            skipped.append(Skipped(target, f"{found.reason}; {backend.install_command}"))
        else:
            chosen.append(target)
    if not chosen:
        raise DriftlineError("No compiler is available to hunt on; driftline doctor says what to install.")
    return chosen, skipped


def resumable(store: Store, *, more_time: bool = False, number: int = 0) -> tuple[Hunt, HuntPlan]:
    """Return the hunt to resume and its plan: the last unfinished one that no other process runs (or `number`), else
    the last one with unexamined suspects or unreduced bugs. With `more_time`, any finished hunt can be resumed."""
    log = HuntLog(store)
    unfinished = [hunt for hunt in log.unfinished() if number in (0, hunt.id)]
    ended = [] if unfinished else [hunt for hunt in reversed(log.hunts()) if number in (0, hunt.id)]
    open_ones = ended if more_time else [hunt for hunt in ended if log.left(hunt) or not_reduced(store, hunt)]
    if open_ones:
        log.reopen(open_ones[0])
        unfinished = [log.hunt(open_ones[0].id)]
    if number and not unfinished:
        log.hunt(number)  # raises an error if there is no such hunt
        raise DriftlineError(f"The hunt {number} in {store.path} has come to its end; start a new one.")
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
    """Hold the lock of a hunt, so that only one process runs it. The system frees the lock if that process dies."""
    path = store.path / f"hunt-{hunt.id}.lock"
    file = open_lock(path)
    try:
        try:
            lock(file)
        except OSError as error:
            raise DriftlineError(
                f"The hunt {hunt.id} in {store.path} is being run by another process; wait for it, or start a new hunt."
            ) from error
        yield
    finally:
        os.close(file)
