"""Checks of scripts: judge a script on each target and store every failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from driftline.core.errors import DriftlineError
from driftline.core.target import Target, parse_targets
from driftline.core.verdict import Judgement
from driftline.events import BugSeen, Listener, StepDone, StepsPlanned, ignore, says
from driftline.execute.pool import Pool
from driftline.scenarios.check import ScriptCheck, ScriptTrials
from driftline.scenarios.function import read_program
from driftline.scenarios.identity import fingerprint
from driftline.scenarios.keeping import record
from driftline.scenarios.runs import ScriptOptions
from driftline.scenarios.target import AS_IT_STANDS, require_script_target
from driftline.store import Store


class ScriptKeywords(TypedDict, total=False):
    """The settings of a script's check as keyword arguments; the fields of `ScriptSettings`."""

    targets: Sequence[str] | None
    timeout: float
    memory: int
    seed: int


@dataclass(frozen=True)
class ScriptSettings:
    """The settings of a script's check. Invalid settings raise DriftlineError when the object is made."""

    targets: Sequence[str] | None = None  # None: the script's own backend, `as-it-stands`
    timeout: float = 300.0  # seconds for one run of the script
    memory: int = 8  # GiB for one run
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.wanted:
            raise DriftlineError("No target given; name at least one, or leave targets out.")
        for target in self.wanted:
            require_script_target(target)
        if not (self.timeout > 0 and self.memory > 0):
            raise DriftlineError("timeout and memory must be larger than 0.")

    @property
    def wanted(self) -> list[Target]:
        """Return the targets, each once."""
        if self.targets is None:
            return [Target(AS_IT_STANDS)]
        return list(dict.fromkeys(target for text in self.targets for target in parse_targets(text)))

    @property
    def options(self) -> ScriptOptions:
        return ScriptOptions(self.timeout, self.memory << 30, self.seed)


def check_script_file(
    pool: Pool, store: Store, program: str | Path, asked: ScriptSettings, listener: Listener = ignore
) -> ScriptCheck:
    """Judge a script, or a function that takes `compile`, on each target, and store the failures."""
    script = read_program(str(program))
    trials = ScriptTrials(script, pool, asked.options, says(listener, script.name))
    listener(StepsPlanned(len(asked.wanted)))
    results, bugs = [], {}
    for target in asked.wanted:
        result = trials.judge(target)
        results.append(result)
        if result.judgement is Judgement.FAIL:
            new = not store.has_bug(fingerprint(result).bug_id)
            bugs[result.target] = record(store, result, asked.options)
            listener(BugSeen(bugs[result.target], new))
        listener(StepDone(result.target, str(result.judgement)))
    return ScriptCheck(script, tuple(results), store.path, bugs)
