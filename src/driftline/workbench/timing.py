"""The methods that measure cost: time one program, or hunt for programs that compilers make slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from driftline.campaign.check.session import choose_targets, require_target
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import CheckOptions
from driftline.core.shown_settings import shows
from driftline.core.target import Target, parse_targets
from driftline.events import Listener, ignore
from driftline.execute.pool import Pool
from driftline.perf.check import perf_check, require_twin, sample_case
from driftline.perf.hunt import PerfHunt
from driftline.perf.journal import PerfHuntEntry, PerfJournal, PerfPlan
from driftline.perf.recording import StoredFindings
from driftline.perf.result import PerfRun
from driftline.perf.settings import PerfHuntKeywords, PerfHuntSettings, PerfKeywords, PerfSettings
from driftline.workbench.opened import OpenBench


class TimingBench(OpenBench):
    """The methods of a workbench for `driftline perf`."""

    @shows(PerfSettings)
    def perf_check(self, program: str, *, listener: Listener = ignore, **keywords: Unpack[PerfKeywords]) -> PerfRun:
        """Say whether targets are slower on a program than they should be; findings go into the store.

        The keywords are the fields of `PerfSettings`. At least eight rounds are measured, and further ones for
        `seconds`.
        """
        asked = PerfSettings(**keywords)
        wanted = _available(asked.targets)
        options, checks, sizes = asked.options(), asked.checks(self._plugins), asked.sizes
        checker = self._warm()
        opened = open_program(program, checker.pool, checks, sizes)
        chosen, _ = choose_targets(opened.program, wanted)
        case = sample_case(opened, checks, sizes)
        if asked.twin_program:
            other = open_program(asked.twin_program, checker.pool, checks, sizes)
            options = replace(options, twin=require_twin(checker, opened, other, case))
        return perf_check(checker, case, chosen, options, listener=listener, keeper=StoredFindings(self._store))

    @shows(PerfHuntSettings)
    def perf_hunt(self, *, listener: Listener = ignore, **keywords: Unpack[PerfHuntKeywords]) -> PerfHuntEntry:
        """Make programs large enough to be timed, and keep those that a target makes slow.

        The keywords are the fields of `PerfHuntSettings`. A resumed hunt keeps its original settings, except that a
        longer time may be given.
        """
        asked = PerfHuntSettings(**keywords)
        journal = PerfJournal(self._store)
        if asked.resume:
            entry = journal.unfinished(asked.seconds or 0.0)
        else:
            wanted = _available(asked.targets or ["inductor", "onnxruntime"])
            seconds = asked.seconds or 600.0
            plan = PerfPlan(tuple(map(str, wanted)), asked.baseline(), asked.ratio, seconds, asked.seed, asked.programs)
            entry = journal.begin(plan)
        options = CheckOptions(seed=entry.plan.seed, plugins=self._plugins)
        with Pool() as pool:  # a pool of its own, which ends running tasks when the time is over
            hunting = PerfHunt(Checker(pool), self._store, entry, options)
            hunting.listen(listener)
            return hunting.run()


def _available(names: Sequence[str]) -> list[Target]:
    wanted = [target for text in names for target in parse_targets(text)]
    for target in wanted:
        require_target(target)
    return wanted
