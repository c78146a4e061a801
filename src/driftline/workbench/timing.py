"""Compilers that are right but slow: one program timed, and hunts for such programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from driftline.campaign.check.session import choose_targets, require_target
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.target import Target, parse_targets
from driftline.core.text import did_you_mean
from driftline.events import Listener, ignore
from driftline.execute.pool import Pool
from driftline.inputs.sizes import Sizes
from driftline.perf.check import EAGER, PerfOptions, parse_against, perf_check, require_twin, sample_case
from driftline.perf.comparison import LIMIT, Effort, Side
from driftline.perf.growth import EXPONENT, GrowthEffort, sizes_to
from driftline.perf.hunt import PerfHunt
from driftline.perf.journal import PerfHuntEntry, PerfJournal, PerfPlan
from driftline.perf.recording import record_growth, record_slow
from driftline.perf.result import GrowthRow, PerfRow, PerfRun
from driftline.perf.twins import MADE_TWINS
from driftline.workbench.opened import OpenBench


class TimingBench(OpenBench):
    """The methods of `driftline perf`."""

    def perf_check(
        self,
        program: str,
        *,
        targets: Sequence[str],
        against: Sequence[str] = (),
        twin: str | None = None,
        ratio: float = LIMIT,
        repeat: int = 20,
        growth: bool = False,
        nodes: int = 320,
        exponent: float = EXPONENT,
        seconds: float = 30.0,
        dims: Mapping[str, int | Sequence[int]] | None = None,
        shapes: Mapping[str, Sequence[int] | Sequence[Sequence[int]]] | None = None,
        timeout: float = 900.0,
        seed: int = 0,
        listener: Listener = ignore,
    ) -> PerfRun:
        """Say whether targets are slower on a program than they should be; findings go into the store.

        `against` is "eager", "plain" (the target's own unoptimised mode) or other targets; `twin` is a program of the
        same meaning that is timed on the same target instead, or "layout" or "dtype", of which one is made. `growth`
        also repeats the program to `nodes` operators.
        Eight rounds are made in any case, further ones for `seconds`.
        """
        wanted = _available(targets)
        baselines = tuple(one for text in against for one in parse_against(text))
        if twin and baselines:
            raise DriftlineError("A twin is timed on the same target; leave out what to compare against.")
        if twin in MADE_TWINS:
            baselines, twin = (twin,), None
        elif twin and twin.isidentifier():
            near = did_you_mean(twin, MADE_TWINS)
            raise DriftlineError(f"There is no twin {twin!r}; give layout, dtype or a program.{near}")
        checks = CheckOptions(seed=seed, timeout=timeout, plugins=self._plugins)
        grown = GrowthEffort(sizes_to(nodes), seconds=seconds, timeout=timeout) if growth else None
        options = PerfOptions(baselines, ratio, Effort(repeat, seconds, timeout), grown, exponent)
        sizes = Sizes.of(dims or {}, shapes or {})
        checker = self._warm()
        opened = open_program(program, checker.pool, checks, sizes)
        chosen, _ = choose_targets(opened.program, wanted)
        case = sample_case(opened, checks, sizes)
        other = require_twin(checker, opened, open_program(twin, checker.pool, checks, sizes), case) if twin else None

        def keep(own: Side, other: Side, row: PerfRow) -> PerfRow:
            return replace(row, bug=record_slow(self._store, own, other, row, ratio).id)

        def keep_growth(case: Case, target: Target, row: GrowthRow) -> GrowthRow:
            found = record_growth(self._store, case, target, row, exponent)
            return replace(row, bugs=tuple(bug.id for bug in found))

        return perf_check(
            checker, case, chosen, options, twin=other, listener=listener, keep=keep, keep_growth=keep_growth
        )

    def perf_hunt(
        self,
        *,
        seconds: float | None = None,
        programs: int = 0,
        targets: Sequence[str] | None = None,
        against: str = EAGER,
        ratio: float = LIMIT,
        seed: int = 0,
        resume: bool = False,
        listener: Listener = ignore,
    ) -> PerfHuntEntry:
        """Make programs large enough to be timed, and keep those that a target makes slow.

        It ends after `seconds` (ten minutes unless told otherwise) or after `programs`. `resume` goes on with the last
        one that was interrupted, with what was asked for then; a longer time may be given.
        """
        journal = PerfJournal(self._store)
        if resume:
            if targets is not None:
                raise DriftlineError("A resumed hunt has its targets; do not give others.")
            entry = journal.unfinished(seconds or 0.0)
        else:
            wanted = _available(targets or ["inductor", "onnxruntime"])
            baselines = parse_against(against)
            if len(baselines) > 1:
                raise DriftlineError("A hunt holds targets against one baseline; give one.")
            plan = PerfPlan(tuple(map(str, wanted)), baselines[0], ratio, seconds or 600.0, seed, programs)
            entry = journal.begin(plan)
        options = CheckOptions(seed=entry.plan.seed, plugins=self._plugins)
        with Pool() as pool:  # of its own: what still runs at the end of the time is ended
            hunting = PerfHunt(Checker(pool), self._store, entry, options)
            hunting.listen(listener)
            return hunting.run()


def _available(names: Sequence[str]) -> list[Target]:
    wanted = [target for text in names for target in parse_targets(text)]
    for target in wanted:
        require_target(target)
    return wanted
