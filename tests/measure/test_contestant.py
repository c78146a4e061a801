"""Contestants: real compilers in processes of their own, kept there and timed."""

from __future__ import annotations

from contextlib import AbstractContextManager

from driftline.backends import resolve
from driftline.checking.kinds import worker_for_target
from driftline.checking.open import open_source
from driftline.checking.written import write_case
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.execution import Outcome
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.measure.contestant import Contestant, contestant
from driftline.measure.rounds import RoundLimits, interleave

TEXT = """
import torch

def twice():
    def run(x, y):
        for _ in range({rounds}):
            x = torch.tanh(x @ y)
        return x
    return run, (torch.ones(64, 64), torch.ones(64, 64))

def refused():
    def run(x):
        raise NotImplementedError("no such thing")
    return run, (torch.ones(2),)
"""


def made(pool: Pool, entry: str, rounds: int = 4) -> Case:
    bundle = SourceBundle("program.py", entry, {"program.py": TEXT.format(rounds=rounds)})
    opened = open_source(bundle, pool, CheckOptions())
    return Case(opened.program, (Inputs(opened.example, "example"),), (), CheckOptions())


def entered(pool: Pool, case: Case, text: str = "eager") -> AbstractContextManager[Contestant]:
    target = Target.parse(text)
    kind = worker_for_target(resolve(target), target, ())
    return contestant(pool, kind, write_case(pool.workspace, case), target.backend, target.told)


def test_more_work_takes_longer_by_both_clocks(pool: Pool) -> None:
    with entered(pool, made(pool, "twice", 40)) as long, entered(pool, made(pool, "twice", 4)) as short:
        assert long.usable and short.usable and long.kept.first_result > 0
        taken = interleave(long, short, RoundLimits(6))
        assert taken.ratio("cpu").value > 2.0  # ten times the work, and what a call costs anyway
        assert all(timing.cpu > 0 and timing.wall > 0 for timing in taken.first)
        assert long.run_peak >= 0 and long.kept.facts.graphs is None


def test_graphs_of_torch_compile_are_counted(pool: Pool) -> None:
    with entered(pool, made(pool, "twice"), "aot_eager") as compiled:
        assert compiled.kept.facts.graphs == 1 and compiled.kept.facts.breaks == ()
    with entered(pool, made(pool, "twice"), "mock:profile=npu:strict=false") as mocked:
        assert mocked.usable and (mocked.kept.facts.violations or 0) > 0


def test_a_program_that_raises_is_no_contestant_but_a_value(pool: Pool) -> None:
    with entered(pool, made(pool, "refused")) as found:
        assert not found.usable
        assert found.kept.outcome is Outcome.REJECTED and "no such thing" in str(found.kept.failure)


def test_the_folder_of_a_contestant_is_removed(pool: Pool) -> None:
    files = write_case(pool.workspace, made(pool, "twice"))
    target = Target.parse("eager")
    with contestant(pool, worker_for_target(resolve(target), target, ()), files, "eager", {}):
        assert files.folder.is_dir()
    assert not files.folder.exists()
