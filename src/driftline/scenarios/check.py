"""Judge a script on several targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driftline.core.announce import Announce
from driftline.core.target import Target
from driftline.core.text import shortened
from driftline.core.verdict import Judgement
from driftline.execute.pool import Pool
from driftline.scenarios.judge import EagerRuns, ScriptResult, judge_script, play_eagerly
from driftline.scenarios.runs import ScriptOptions
from driftline.scenarios.script import UserScript
from driftline.scenarios.target import require_script_target
from driftline.store import Bug


@dataclass(frozen=True)
class ScriptCheck:
    """The result of `driftline.check_script`: a result for each target, the bugs of those that fail, and their
    store."""

    script: UserScript
    results: tuple[ScriptResult, ...]
    store: Path
    bugs: Mapping[str, Bug] = field(default_factory=dict)  # by target

    def __repr__(self) -> str:
        told = ", ".join(f"{one.target}: {one.judgement}" for one in self.results)
        bugs = sorted({bug.id for bug in self.bugs.values()})
        return f"<ScriptCheck {self.script.name}: {told}{f'; bugs: {shortened(bugs)}' if bugs else ''}>"

    @property
    def failed(self) -> bool:
        """True if the script behaves differently from eager on any target."""
        return any(one.judgement is Judgement.FAIL for one in self.results)

    @property
    def compared(self) -> bool:
        """True if any target was judged. If not, nothing is known, which is not the same as clean."""
        return any(one.judgement in (Judgement.PASS, Judgement.FAIL) for one in self.results)

    def to_json(self) -> dict[str, Any]:
        """The fields that docs/json.md describes, without the bugs themselves."""
        return {
            "script": {"name": self.script.name, "digest": self.script.digest},
            "results": [{**one.to_json(), "bug": self._bug_of(one)} for one in self.results],
            "store": str(self.store),
            "compared": self.compared,
        }

    def _bug_of(self, result: ScriptResult) -> str | None:
        return self.bugs[result.target].id if result.target in self.bugs else None


class ScriptTrials:
    """Judges one script on several targets. The eager runs are made once for each release of torch."""

    def __init__(
        self, script: UserScript, pool: Pool, options: ScriptOptions, announce: Announce = lambda text: None
    ) -> None:
        self._script = script
        self._pool = pool
        self._options = options
        self._announce = announce
        self._eagerly: dict[str | None, EagerRuns] = {}  # by release of torch

    def judge(self, target: Target) -> ScriptResult:
        """Judge the script on one target and return the result.

        Raises `DriftlineError` for a target that scripts do not run on, and for a script that cannot be judged.
        """
        require_script_target(target)
        if target.version not in self._eagerly:
            self._eagerly[target.version] = play_eagerly(
                self._script, self._pool, self._options, target, self._announce
            )
        eagerly = self._eagerly[target.version]
        return judge_script(self._script, eagerly, self._pool, self._options, target, self._announce)
