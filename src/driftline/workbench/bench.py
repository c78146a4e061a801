"""The class `Workbench`: checks, audits and instabilities are methods here, everything else comes from its bases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from driftline.api import CheckRun
from driftline.campaign.check.layering import look_inside
from driftline.campaign.check.scripts import ScriptKeywords, ScriptSettings, check_script_file
from driftline.campaign.check.settings import CheckKeywords, CheckSettings
from driftline.causes import load
from driftline.checking.checker import Checker
from driftline.checking.result import CheckResult
from driftline.core.case import CheckOptions
from driftline.core.config import default_store
from driftline.core.program import Program
from driftline.core.shown_settings import shows
from driftline.events import Listener, ignore
from driftline.execute.pool import Pool
from driftline.inputs.foreign.specs import parse_specs
from driftline.instabilities.frameworks import parse_frameworks
from driftline.instabilities.run import RunKeywords, RunPlan, RunResult, RunSettings, run_models
from driftline.patterns.audit_settings import AuditKeywords, AuditSettings
from driftline.scenarios.check import ScriptCheck
from driftline.workbench.explaining import ExplainingBench
from driftline.workbench.hunting import HuntingBench
from driftline.workbench.sharing import SharingBench
from driftline.workbench.timing import TimingBench

if TYPE_CHECKING:
    from driftline.patterns.audit import AuditResult


def open(
    store: str | Path | None = None,
    *,
    plugins: Sequence[str] = (),
    jobs: int | None = None,
    causes: Sequence[str | Path] = (),
) -> Workbench:
    """Open a store, or create it; without a path, open the store that the command line would use.

    `plugins` are Python files that register further backends; `jobs` is how much runs at the same time (by default as
    much as there are processors, if memory suffices); `causes` are folders of causes of your own. Use it in a `with`
    statement, or call `close()`: it holds worker processes.
    """
    library = load([Path(folder) for folder in causes])
    return Workbench(Path(store) if store else default_store(), plugins=plugins, jobs=jobs, library=library)


class Workbench(HuntingBench, ExplainingBench, TimingBench, SharingBench):
    """An open store and every operation on it, as methods. Made by `driftline.open`. Not thread-safe."""

    @shows(CheckSettings)
    def check(
        self,
        program: Any,
        example: Any = None,
        *,
        asked: CheckSettings | None = None,
        require: Callable[[Program], None] = lambda program: None,
        listener: Listener = ignore,
        **settings: Unpack[CheckKeywords],
    ) -> CheckResult:
        """Run a program on many compilers and say which of them is wrong; failures go into the store.

        `program` is what `driftline.check` accepts: a live torch model with example inputs, an ONNX model, or the name
        of a program. The settings are the fields of `CheckSettings`, as keywords or as a value in `asked`. `require` is
        called with the program before it runs, and may refuse it by raising. Workers stay warm between calls.
        """
        asked = asked or CheckSettings(**settings)
        run = CheckRun(self._warm(), self._store, asked, self._plugins, self._library, listener, require)
        return run.check(program, example)

    def check_script(
        self, program: str | Path, *, listener: Listener = ignore, **settings: Unpack[ScriptKeywords]
    ) -> ScriptCheck:
        """Run a script that calls `torch.compile` itself with and without the compiler; failures go into the store.

        `settings` are the fields of `ScriptSettings`, as for `driftline.check_script`.
        """
        return check_script_file(self._warm().pool, self._store, str(program), ScriptSettings(**settings), listener)

    def look_inside(self, result: CheckResult, *, taps: str = "auto", listener: Listener = ignore) -> list[Any]:
        """Show the error of a check layer by layer. Returns one JSON body per executed target: see docs/json.md."""
        return look_inside(self._warm(), self._store, result, taps=taps, listener=listener)

    @shows(AuditSettings)
    def audit(self, *, listener: Listener = ignore, **keywords: Unpack[AuditKeywords]) -> AuditResult:
        """Fire the rewrite rules of the compilers on programs varied where the rules allow it, and check the results.

        The keywords are the fields of `AuditSettings`: `compilers` whose rules are audited (default: all that are
        installed; `inductor:device=cuda` for a GPU), `only` is a pattern of rules as for `driftline patterns audit
        --only`. The default time is half an hour. `resume` continues the last interrupted audit, or the one with
        `number`.
        """
        return self._audited(AuditSettings(**keywords), listener, passes=False)

    @shows(AuditSettings)
    def test_passes(self, *, listener: Listener = ignore, **keywords: Unpack[AuditKeywords]) -> AuditResult:
        """Run one pass of a compiler at a time on small programs, and check that it does not change their results.

        The keywords are the fields of `AuditSettings`; `only` is a pattern as for `driftline passes test --only`.
        """
        return self._audited(AuditSettings(**keywords), listener, passes=True)

    def _audited(self, asked: AuditSettings, listener: Listener, *, passes: bool) -> AuditResult:
        from driftline.core.plugins import load_plugins
        from driftline.patterns.audit import Audit, planned_audit

        load_plugins(asked.plugins)
        plan, going = planned_audit(self._store, asked, passes=passes)
        with Pool() as pool:
            more_time = asked.resume and asked.seconds is not None
            checker = Checker(pool, self._jobs)
            return Audit(checker, self._store, plan, listener=listener, going=going, more_time=more_time).run()

    @shows(RunSettings)
    def instabilities(
        self,
        models: str | Path,
        out: str | Path,
        *,
        listener: Listener = ignore,
        **keywords: Unpack[RunKeywords],
    ) -> RunResult:
        """Run every model of a folder on every input with every framework.

        `out` is the folder of the run; a run that exists there is continued. The keywords are the fields of
        `RunSettings`: `solving` is the time to solve the inputs of one model; `specs` describe the bytes of KLEE's test
        cases (`input:float32[3]`).
        """
        asked = RunSettings(**keywords)
        plan = RunPlan(
            Path(models),
            asked.inputs,
            tuple(parse_frameworks(asked.frameworks)),
            Path(out),
            CheckOptions(seed=asked.seed, timeout=asked.timeout, plugins=self._plugins),
            asked.solving,
            self._jobs,
            parse_specs(asked.specs),
        )
        return run_models(self._warm(), self._store, plan, library=self._library, listener=listener)
