"""Random programs of the operator table for a compiler that does not take ONNX, with the interface of `OnnxModels`."""

from __future__ import annotations

from collections.abc import Sequence

from driftline.checking.batch_requests import ARMS, ArmsRequest, Prepared, ProgramRequest
from driftline.checking.kinds import worker_for_framework
from driftline.execute.pool import Pool
from driftline.patterns.onnx_models import STRATEGIES, OnnxModels

GENERATOR = "graph"


class GraphPrograms(OnnxModels):
    """Makes random graphs in another format. They are not changed, since there are as many for each operator as
    needed."""

    def __init__(self, pool: Pool, seed: int, form: str) -> None:
        super().__init__(pool, seed)
        self._form = form

    def idioms(self) -> list[str]:
        return []

    def others(self) -> list[str]:
        request = ArmsRequest(self._form, (GENERATOR,))
        return list(self._pool.ask(worker_for_framework(self._form), ARMS, request, timeout=120.0).arms[GENERATOR])

    def changed(self, base: str) -> list[str]:
        return [base]

    def request(self, arm: str, number: int) -> ProgramRequest:
        return ProgramRequest(GENERATOR, arm, number, STRATEGIES, seed=f"{self._seed}/{arm}/{number}")

    def _prepared(self, requests: Sequence[ProgramRequest]) -> list[Prepared]:
        return self._asked(self._form, requests)
