"""The models for auditing rules of ONNX compilers: idioms, operator tests and random graphs, unchanged or changed."""

from __future__ import annotations

from collections.abc import Sequence

from driftline.checking.batch import died
from driftline.checking.batch_requests import (
    ARMS,
    PREPARE,
    ArmsRequest,
    Prepared,
    PreparedProgram,
    PrepareRequest,
    ProgramRequest,
)
from driftline.checking.kinds import worker_for_framework
from driftline.execute.pool import Pool
from driftline.generate.changes import CHANGES
from driftline.generate.idioms.generator import Idioms
from driftline.patterns.survey import Made

GENERATOR = Idioms.name
STRATEGIES = ("random", "boundary", "specials")


class OnnxModels:
    """Makes models in a worker that has `onnx`. Their files exist as long as the pool."""

    def __init__(self, pool: Pool, seed: int) -> None:
        self._pool = pool
        self._seed = seed
        self._arms: dict[str, tuple[str, ...]] = {}
        self._made: dict[tuple[str, int], Prepared] = {}

    def idioms(self) -> list[str]:
        return list(self._of(GENERATOR))

    def others(self) -> list[str]:
        """Return the operators of the generators `optests` and `graph`, as `GENERATOR:OPERATOR`."""
        return [f"{name}:{arm}" for name in ("optests", "graph") for arm in self._of(name)]

    def _of(self, generator: str) -> tuple[str, ...]:
        if generator not in self._arms:
            request = ArmsRequest("onnx", (generator,))
            self._arms |= self._pool.ask(worker_for_framework("onnx"), ARMS, request, timeout=120.0).arms
        return self._arms[generator]

    def changed(self, base: str) -> list[str]:
        """Return the name of `base` with each kind of change."""
        return [f"{base}~{change}" for change in CHANGES]

    def make(self, wanted: Sequence[tuple[str, int]]) -> list[Made]:
        """Make the `number`-th model of each arm, cached. Models that cannot be made or do not run are left out."""
        missing = [pair for pair in wanted if pair not in self._made]
        if missing:
            requests = [self.request(arm, number) for arm, number in missing]
            self._made |= dict(zip(missing, self._prepared(requests), strict=True))
        answers = [(arm, number, self._made[arm, number]) for arm, number in wanted]
        return [Made(arm, number, made) for arm, number, made in answers if isinstance(made, PreparedProgram)]

    def request(self, arm: str, number: int) -> ProgramRequest:
        return ProgramRequest(GENERATOR, arm, number, STRATEGIES, seed=f"{self._seed}/{arm}/{number}")

    def _prepared(self, requests: Sequence[ProgramRequest]) -> list[Prepared]:
        return self._asked("onnx", requests)

    def _asked(self, form: str, requests: Sequence[ProgramRequest]) -> list[Prepared]:
        """Return one result for each request; a model whose reference run ends the worker is invalid."""
        folder = self._pool.workspace.job_folder()
        request = PrepareRequest(folder, form, self._seed, sizes=False, requests=tuple(requests))
        report = self._pool.run(worker_for_framework(form), PREPARE, request, timeout=60.0)
        if report.answer is not None:
            return list(report.answer.programs)
        if len(requests) == 1:
            return [died(report)]
        half = len(requests) // 2
        return self._asked(form, requests[:half]) + self._asked(form, requests[half:])
