"""Screens generated programs (see `screener.py`), and turns a prepared program into an ordinary case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from driftline.checking.batch_requests import (
    PREPARE,
    InvalidProgram,
    Prepared,
    PreparedProgram,
    PrepareRequest,
    ProgramRequest,
)
from driftline.checking.screener import Screener, ScreenResult
from driftline.core import strangers
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.execute.pool import Pool, TaskReport
from driftline.execute.shelf import load_samples

Screened = ScreenResult[ProgramRequest]


class Screening(Screener[ProgramRequest]):
    """Screens programs of the generators, or of existing graphs."""

    def __init__(
        self,
        pool: Pool,
        form: str,
        *,
        seed: int = 0,
        plugins: Sequence[str] = (),
        timeout: float = 60.0,
        shards: int = 1,
        explain: bool = True,
    ) -> None:
        super().__init__(pool, form, plugins=plugins, timeout=timeout, shards=shards, explain=explain)
        self._seed = seed

    def prepare(self, requests: Sequence[ProgramRequest], *, sizes: bool = True) -> list[Prepared]:
        if any(one.text for one in requests):
            strangers.admit()
        folder = self._new_folder()
        request = PrepareRequest(folder, self._form, self._seed, sizes, tuple(requests), self._plugins)
        report = self._ask(PREPARE, request, fresh=any(one.text for one in requests))
        if report.answer is not None:
            return list(report.answer.programs)
        if len(requests) == 1:
            return [died(report)]
        return [answer for alone in requests for answer in self.prepare([alone], sizes=sizes)]


def died(report: TaskReport[Any]) -> InvalidProgram:
    """Return the invalid program for a worker that died while it made a single program."""
    return InvalidProgram(f"its reference run ended with {report.ending} ({report.detail})", died=str(report.ending))


def case_of(made: PreparedProgram, target: Target, options: CheckOptions, samples: Sequence[int] = ()) -> Case:
    """Return a prepared program as an ordinary case, with its inputs in memory. `samples`: the indices to use; default:
    all."""
    drawn = load_samples(made.tensors)
    chosen = samples or range(len(drawn))
    inputs = tuple(Inputs(drawn[index], made.origins[index]) for index in chosen)
    return Case(made.program, inputs, (target,), replace(options, grad=made.grad))


def native_of(made: PreparedProgram) -> list[Arrays]:
    """Return the results of the program's reference, one set for each sample."""
    return load_samples(made.native)
