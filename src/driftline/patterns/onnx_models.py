"""The models that rules of ONNX compilers are audited on: idioms, operator tests, random graphs, plain or changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driftline.checking.batch_tasks import arms as generator_arms
from driftline.checking.batch_tasks import prepare as prepare_programs
from driftline.checking.kinds import worker_for_framework
from driftline.core.errors import InternalError
from driftline.execute.pool import Pool
from driftline.generate import register_generator
from driftline.generate.changes import CHANGES
from driftline.generate.idioms.generator import Idioms
from driftline.patterns.survey import Made

GENERATOR = Idioms.name
STRATEGIES = ("random", "boundary", "specials")
_ME = "driftline.patterns.onnx_models"


class OnnxModels:
    """Makes models in a worker that has `onnx`; their files live as long as the pool."""

    def __init__(self, pool: Pool, seed: int) -> None:
        self._pool = pool
        self._seed = seed
        self._arms: dict[str, list[str]] = {}
        self._made: dict[tuple[str, int], dict[str, Any]] = {}

    def idioms(self) -> list[str]:
        return self._of(GENERATOR)

    def others(self) -> list[str]:
        """Operator tests and operators of the random graphs, as arms of ours."""
        return [f"{name}:{arm}" for name in ("optests", "graph") for arm in self._of(name)]

    def _of(self, generator: str) -> list[str]:
        if generator not in self._arms:
            payload = {"form": "onnx", "generators": [generator], "plugins": []}
            self._arms |= self._ask("arms", payload)["arms"]
        return self._arms[generator]

    def changed(self, base: str) -> list[str]:
        return [f"{base}~{change}" for change in CHANGES]

    def make(self, wanted: Sequence[tuple[str, int]]) -> list[Made]:
        """The `number`-th model of each arm, made once; what cannot be made, or does not run, is left out."""
        missing = [pair for pair in wanted if pair not in self._made]
        if missing:
            requests = [
                {
                    "generator": GENERATOR,
                    "arm": arm,
                    "number": number,
                    "strategies": list(STRATEGIES),
                    "seed": f"{self._seed}/{arm}/{number}",
                }
                for arm, number in missing
            ]
            payload = {"form": "onnx", "seed": self._seed, "sizes": False, "plugins": []}
            self._made |= dict(zip(missing, self._prepared(payload, requests), strict=True))
        answers = [(arm, number, self._made[arm, number]) for arm, number in wanted]
        return [Made(*made) for made in answers if "nothing" not in made[2] and "invalid" not in made[2]]

    def _prepared(self, payload: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """One answer for each; a model whose reference run ends the worker is invalid."""
        folder = self._pool.workspace.job_folder()
        full = {**payload, "folder": str(folder), "requests": list(requests)}
        report = self._pool.run(worker_for_framework("onnx"), f"{_ME}:prepare", full, timeout=60.0)
        if report.ending == "done":
            return list(report.result["programs"])
        if len(requests) == 1:
            return [{"invalid": f"its reference run ended with {report.ending}"}]
        half = len(requests) // 2
        return self._prepared(payload, requests[:half]) + self._prepared(payload, requests[half:])

    def _ask(self, task: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        report = self._pool.run(worker_for_framework("onnx"), f"{_ME}:{task}", payload, timeout=120.0)
        if report.ending != "done":
            raise InternalError(f"the models for the audit could not be listed: {report.ending} {report.detail}")
        return report.result


# -- in the worker -----------------------------------------------------------------------------------------------------


def arms(payload: dict[str, Any], context: object) -> dict[str, Any]:
    register_generator(Idioms)
    return generator_arms(payload, context)


def prepare(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    register_generator(Idioms)
    return prepare_programs(payload, context)
