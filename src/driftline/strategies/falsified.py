"""Shrinks a drawn program that failed with the reducer instead of Hypothesis.

Hypothesis shrinks an example by running the test on smaller draws, one after another, each of which would be compiled
and confirmed. The reducer knows the structure of programs, tries many parts at a time, and keeps the failure the same.
So once a program has failed, other draws of the same test are discarded untested, and Hypothesis reports this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from driftline.api import shared_checker
from driftline.campaign.explain.failing import find_failing
from driftline.campaign.explain.reduction import reduce_failing
from driftline.checking.result import CheckResult
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.diagnose.reduce.reducer import NotReducible
from driftline.store import Store
from driftline.strategies.drawn import DrawnProgram

_SHOWN = 60  # lines of a program


def discard() -> NoReturn:
    """Reject this example, so that Hypothesis draws another."""
    from hypothesis import reject

    reject()


@dataclass(frozen=True)
class Falsified:
    """The first failing program of a test, with the text that reports it."""

    program: DrawnProgram
    told: str

    @staticmethod
    def of(program: DrawnProgram, result: CheckResult, told: str, budget: float) -> Falsified:
        """Reduce a failing program for at most `budget` seconds; with 0, keep it as it is."""
        target, bug = next(iter(result.bugs.items()))
        if budget <= 0:
            return Falsified(program, f"{told}\n\n{_indented(program.content)}")
        checker = shared_checker()
        with Store.create(result.store) as store:
            try:
                failing = find_failing(
                    bug.id,
                    store,
                    checker,
                    target=target,
                    options=CheckOptions(plugins=result.outcome.case.options.plugins),
                )
                body = reduce_failing(checker, store, failing, budget=budget).body
            except (NotReducible, DriftlineError) as error:
                return Falsified(program, f"{told}\n  not reduced: {error}\n\n{_indented(program.content)}")
        was, now = body["before"]["operators"], body["after"]["operators"]
        head = f"  reduced from {was} to {now} operators ({body['ended']}):"
        inputs = [f"  {one['name']}: {one['dtype']}{one['shape']} = {one['values']}" for one in body["inputs"]]
        return Falsified(program, "\n".join([told, head, "", _indented(body["program"]["text"]), "", *inputs]))

    def is_of(self, program: DrawnProgram) -> bool:
        """True if this is the same program with the same inputs."""
        mine, other = self.program.inputs, program.inputs
        same = program.content == self.program.content and list(mine) == list(other)
        return same and all(mine[name].tobytes() == other[name].tobytes() for name in mine)


def _indented(content: str | bytes) -> str:
    if isinstance(content, bytes):
        import onnx

        content = onnx.printer.to_text(onnx.load_model_from_string(content))
    lines = content.strip().splitlines()
    more = [f"... and {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
    return "\n".join(f"    {line}" for line in (*lines[:_SHOWN], *more))
