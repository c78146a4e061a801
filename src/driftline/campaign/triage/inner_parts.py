"""Finds which of the operators that a compiler sees in a program fail by themselves.

A generated operator may be several of ONNX or torch (`var` sums and divides), and idioms, texts and tests of others are
not generated graphs. The reducer reads such a program (`diagnose/reduce`); its calls are run alone, then two and three
together, on the values that they get in the whole. The calls that fail name the bug, so it has one name wherever it is
met.
"""

from __future__ import annotations

import time

from driftline.campaign.triage.composites import has_product, product_in
from driftline.campaign.triage.failing_program import TRACERS, FailingProgram
from driftline.campaign.triage.part_screening import PartScreening
from driftline.campaign.triage.plain_functions import (
    MOST_CALLS,
    OF_ONNX,
    OF_TORCH,
    fails_with_both,
    may_be_any_function,
    with_plain_function,
)
from driftline.campaign.triage.plainest import (
    SCALES,
    drawn,
    has_the_same_structure,
    in_floats,
    in_same_way,
    is_plainly_wrong,
    may_be_floats,
    may_be_plainer,
    plain_numbers,
    plainly_wrong_alone,
    same_failure,
    same_numbers,
    small,
)
from driftline.campaign.triage.smallest_parts import Cutting
from driftline.checking.batch import Screened
from driftline.checking.screener import WRITTEN_TO
from driftline.core.tensors import Array
from driftline.core.verdict import VALUE_KINDS, Kind
from driftline.diagnose.reduce.graph import ProgramGraph
from driftline.execute.pool import Pool

PATIENCE = 20.0  # seconds for one program, and again for the plainest form of each part


class InnerParts:
    """Finds the failing operators inside a program by screening, until the deadline (`time.monotonic`)."""

    def __init__(self, pool: Pool, screening: PartScreening, deadline: float) -> None:
        self._pool = pool
        self._screening = screening
        self._deadline = deadline

    def of(self, failing: Screened) -> list[Screened]:
        """Return the smallest sets of operators that fail as the program does, in their plainest form. The list is
        empty if there is none but a generated graph itself under the names that it has already."""
        assert failing.made
        graph = failing.made.graph
        if failing.made.program.framework not in TRACERS or failing.made.grad:
            return []
        if graph and graph.varying:  # a program that fails at a second size is not cut
            return []
        program = FailingProgram(self._pool, self._screening, failing)
        if program.base is None:
            return []
        end = self._patience()  # the first reader imports for seconds

        def explains(part: Screened) -> bool:
            """True if a part may explain the failure: a wrong result may cause any other; an error or a crash must be
            the same."""
            if failing.kind not in VALUE_KINDS:
                return (part.kind, part.evidence.message) == (failing.kind, failing.evidence.message)
            wrong = part.kind in VALUE_KINDS or is_unchanged_input(part)  # an input here may be computed there
            return wrong and bool(part.evidence.policies) <= bool(failing.evidence.policies)

        found: list[Screened] = []
        if len(program.base.graph.nodes) > 1:
            found = Cutting(failing, program.base, program.screened, end, explains).parts()
            found = [part for part in found if part is not failing and explains(part)]
        # Programs that are not generated graphs have no plainer form elsewhere.
        wanted = not program.is_named_like(graph) if graph else failing.kind in VALUE_KINDS
        if not found and wanted:
            found = [part for part in program.screened([program.base.graph]) if explains(part)]
        if not found and (product := self._product_alone(failing, program)):
            found = [product]
        return [self._plainest(self._product_alone(part) or part) for part in found]

    def _product_alone(self, part: Screened, program: FailingProgram | None = None) -> Screened | None:
        """Return the product of a part that consists of a product and more, if the product explains the failure, else
        None."""
        if part.sample or part.kind not in VALUE_KINDS or not (program or has_product(part.coverage)):
            return None
        program = program or FailingProgram(self._pool, self._screening, part)
        product = product_in(program.base.graph, program.values) if program.base else None
        if product is None:
            return None
        (alone,) = program.screened([product.graph])
        if not same_failure(alone, part):
            return None
        again = self._screening.again(part)
        came, of_product = self._screening.first_results([again, self._screening.again(alone)])
        right = self._screening.references(again)
        follows = came and of_product and right and product.explains(of_product[0], came[0], right[0])
        return alone if follows else None

    def _plainest(self, part: Screened) -> Screened:
        """Make a part plain by the same steps as a generated graph (`PlainestForm`, `PlainestFunctions`)."""
        read: Screened | None = None
        end = self._patience()  # its own time limit: a bug found late would go by another name
        steps = (
            self._on_ordinary_numbers,
            self._in_plainer_dtype,
            self._in_plainer_dtype,
            self._in_floats,
            *(self._with_plain_function,) * MOST_CALLS,
        )
        for simpler in steps:
            if part is not read:
                program, read = FailingProgram(self._pool, self._screening, part), part
            if program.base is None or time.monotonic() > end:
                return part
            part = simpler(part, program)
        return part

    def _patience(self) -> float:
        return min(self._deadline, time.monotonic() + PATIENCE)

    def _on_ordinary_numbers(self, part: Screened, program: FailingProgram) -> Screened:
        if not may_be_plainer(part):
            return part

        def form(scale: float) -> ProgramGraph:
            return program.holding(lambda leaf: plain_numbers(scale, str(leaf.number)))

        answers = program.screened([form(scale) for scale in SCALES])
        return answers[0] if all(map(is_plainly_wrong, answers)) else part

    def _in_plainer_dtype(self, part: Screened, program: FailingProgram) -> Screened:
        forms = list(program.in_plainer_dtypes())
        answers = program.screened(forms)
        if same := next((answer for answer in answers if in_same_way(answer, part)), None):
            return same
        if not is_plainly_wrong(part):
            return part
        return plainly_wrong_alone(self._screening, program.screened(forms, drawn)) or part

    def _in_floats(self, part: Screened, program: FailingProgram) -> Screened:
        if not may_be_floats(part, program.dtypes):
            return part
        for numbers in program.numbers():
            forms = [program.changing(numbers, change) for change in (in_floats, small, _small_floats)]
            as_given, of_small, small_floats = program.screened(forms)
            if has_the_same_structure(as_given, part):
                return as_given
            if is_plainly_wrong(of_small) and is_plainly_wrong(small_floats):
                return small_floats
            again = self._screening.again(part)
            if is_plainly_wrong(part) and same_numbers(self._screening, as_given, again, part):
                return as_given
        return part

    def _with_plain_function(self, part: Screened, program: FailingProgram) -> Screened:
        assert program.base and part.made
        if not may_be_any_function(part):
            return part
        end = self._patience()
        plain = OF_ONNX if part.made.program.framework == "onnx" else OF_TORCH
        for forms in with_plain_function(program.base, plain):
            answer = fails_with_both(program.screened(forms), part)
            if answer and self._is_smallest(answer, end):
                return answer
            if time.monotonic() > end:
                break
        return part

    def _is_smallest(self, part: Screened, end: float) -> bool:
        program = FailingProgram(self._pool, self._screening, part)
        if program.base is None:
            return False
        smallest, *_ = Cutting(part, program.base, program.screened, end).parts()
        return smallest is part and time.monotonic() < end  # otherwise not all smaller parts were tried


def _small_floats(array: Array) -> Array:
    return in_floats(small(array))


def is_unchanged_input(part: Screened) -> bool:
    """True if the only fault is that values are missing that should have been written to inputs."""
    wanted, came = set(part.evidence.wanted), set(part.evidence.came)
    lacking = wanted - came
    written = all(name.startswith(WRITTEN_TO) for name in lacking)
    return part.kind == Kind.WRONG_STRUCTURE and came < wanted and written
