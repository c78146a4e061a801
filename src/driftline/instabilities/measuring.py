"""Run a batch of models on one framework, judge the results and count instabilities. See `screener.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driftline.backends import resolve
from driftline.checking.batch import died
from driftline.checking.batch_requests import InvalidProgram, Prepared, PreparedProgram, ProgramVerdict, SampleVerdict
from driftline.checking.screener import Screener
from driftline.core.execution import Outcome
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.execute.requests import Ran
from driftline.execute.shelf import load_from, load_samples
from driftline.instabilities.counting import NOTHING_COUNTED, count
from driftline.instabilities.records import InputRow
from driftline.instabilities.requests import REFER, ReferItem, ReferRequest


@dataclass(frozen=True)
class ReferredModel:
    """A model with its reference results, ready to be run."""

    made: PreparedProgram
    exact: str  # the place of its float64 results, where they are known


class ModelScreener(Screener[ReferItem]):
    """Screens models of one format (torch or onnx). Its files exist until the end of the `with` block."""

    def prepare(self, requests: Sequence[ReferItem], *, sizes: bool = True) -> list[Prepared]:
        return [found.made if isinstance(found, ReferredModel) else found for found in self.refer(requests)]

    def refer(self, items: Sequence[ReferItem]) -> list[ReferredModel | InvalidProgram]:
        """Run the reference of each model. If the batch crashes the worker, each model is run on its own."""
        report = self._ask(REFER, ReferRequest(tuple(items), self._new_folder(), self._plugins))
        if report.answer is None:
            if len(items) == 1:
                return [died(report)]
            return [answer for item in items for answer in self.refer([item])]
        found: list[ReferredModel | InvalidProgram] = []
        for item, answer in zip(items, report.answer.items, strict=True):
            if answer.problem:
                found.append(InvalidProgram(answer.problem))
                continue
            made = PreparedProgram(
                item.program, item.tensors, answer.native, item.origins, grad=False, company="plain", each=True
            )
            found.append(ReferredModel(made, answer.exact))
        return found

    def measure(self, models: Mapping[int, ReferredModel], target: Target) -> dict[int, tuple[InputRow, ...]]:
        """Run the models on a target. Returns, for each model, one row for each input."""
        programs = {number: model.made for number, model in models.items()}
        rows: dict[int, tuple[InputRow, ...]] = {}
        for piece in self._pieces(programs, resolve(target).together):
            executions, verdicts = self._run_and_judge(piece, target)
            executions |= self._not_believed(piece, executions, target, {})
            for number, ran in executions.items():
                rows[number] = _rows(models[number], ran, verdicts.get(number))
        return rows

    def outputs(self, models: Mapping[int, ReferredModel], target: Target) -> dict[int, list[Arrays]]:
        """Return the outputs for each input of every model that the target runs, without judging them."""
        executions = self._execute({number: model.made for number, model in models.items()}, target)
        return {
            number: [load_from(place) for place in ran.outputs]
            for number, ran in executions.items()
            if ran.outcome is Outcome.OK
        }


def _rows(model: ReferredModel, ran: Ran, found: ProgramVerdict | None) -> tuple[InputRow, ...]:
    inputs = range(len(model.made.origins))
    if ran.outcome is not Outcome.OK or found is None:
        verdict = "rejected" if ran.outcome is Outcome.REJECTED else "inconclusive" if ran.problem else "fail"
        reason = ran.problem or str(ran.failure or ran.outcome)
        kind = "" if verdict != "fail" else ran.outcome.lower()
        outcome = "rejected" if ran.outcome is Outcome.REJECTED else ran.outcome.lower()
        return tuple(InputRow(number, outcome, NOTHING_COUNTED, verdict, kind, reason) for number in inputs)
    exact = load_samples(model.exact) if model.exact else None
    each: Sequence[SampleVerdict] = found.each or [found.verdict] * len(inputs)
    rows = []
    for number in inputs:
        counts = count(load_from(ran.outputs[number]), exact[number] if exact else None)
        verdict_of = each[number]
        rows.append(InputRow(number, "ok", counts, verdict_of.judgement, verdict_of.kind, verdict_of.reason))
    return tuple(rows)
