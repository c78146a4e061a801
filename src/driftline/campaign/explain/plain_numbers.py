"""Searches plainer numbers for the script of a bug: inputs and weights on which the compiler fails in the same way.

A maintainer reads `np.linspace(-1, 1, 66)` in a second, but not two hundred literals. Each proposal is run on the
compiler and judged like any case before it is accepted. The proposals, the shortest text first: one number everywhere,
zeros or ones except for one number, formulas (counting, evenly spaced, drawn from a seed), and the same numbers with
fewer digits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from driftline.checking.checker import Checker
from driftline.core.case import Case, Inputs
from driftline.core.evidence import Evidence
from driftline.core.execution import Outcome
from driftline.core.program import Program, file_digest
from driftline.core.tensors import Array, Arrays, is_float, numpy_dtype
from driftline.core.verdict import Judgement, Verdict
from driftline.diagnose.reduce.signature import Signature
from driftline.diagnose.reduce.values import oddness
from driftline.oracle.judge import ReferenceSample
from driftline.programs.literals import READ_AT_ONCE, Literals
from driftline.programs.number_formulas import SEEDS, formulas
from driftline.report.export.subject import PLAIN
from driftline.report.scripts.failure import ShownFailure
from driftline.report.scripts.tolerance import tolerance

SECONDS = 60.0  # for the whole search
ENOUGH = 100  # characters: numbers with a shorter text are plain already
LARGEST = 1 << 16  # elements of the largest array for which plainer numbers are searched
BATCH = 24  # proposed inputs in one run
_ODDEST = 3  # unusual values of an array that are tried for all its elements
_DIGITS = (1, 2, 3)


@dataclass(frozen=True)
class Numbers:
    """The numbers of a program: its inputs, and the weights of an ONNX model."""

    inputs: Arrays
    weights: Arrays = field(default_factory=dict)

    def arrays(self) -> dict[tuple[str, str], Array]:
        named = {("input", name): array for name, array in self.inputs.items()}
        return named | {("weight", name): array for name, array in self.weights.items()}

    def with_arrays(self, changed: Mapping[tuple[str, str], Array]) -> Numbers:
        inputs = {name: changed.get(("input", name), array) for name, array in self.inputs.items()}
        return Numbers(inputs, {name: changed.get(("weight", name), array) for name, array in self.weights.items()})

    @property
    def cost(self) -> int:
        """The number of characters that all arrays take in a script."""
        return sum(map(cost, self.arrays().values()))


@dataclass(frozen=True)
class PlainCase:
    """A case with plain numbers that fails in the same way, and the results that its script needs."""

    case: Case
    verdict: Verdict
    expected: Arrays
    right: Arrays
    numbers: Numbers
    sample: ReferenceSample


def cost(array: Array) -> int:
    """Return the number of characters that an array takes in a script."""
    return len(Literals("numpy", 1 << 40, brief=True).expression("x", array))


def right_results(sample: ReferenceSample) -> Arrays:
    """Return the float64 results of a program, rounded once to its output dtypes."""
    exact = sample.exact or {}
    with np.errstate(all="ignore"):
        return {
            name: exact[name].astype(value.dtype)
            if name in exact and exact[name].shape == value.shape and _rounds(value)
            else value
            for name, value in sample.native.items()
        }


class PlainNumbers:
    """Searches plainer numbers for a case with one target and one sample that fails with a given signature."""

    def __init__(self, checker: Checker, case: Case, signature: Signature, evidence: Evidence) -> None:
        self._checker = checker
        self._case = case
        self._signature = signature
        self._evidence = evidence
        self._deadline = time.monotonic() + SECONDS
        self._folder = checker.pool.workspace.job_folder()
        self._given = Numbers(case.samples[0].arrays, _weights(case))

    def search(self) -> PlainCase | None:
        """Return the case with the plainest numbers found, or None if the given ones are plain or no plainer ones
        fail."""
        if self._given.cost <= ENOUGH:
            return None
        best = self._first(self._given, self._all_at_once())
        current = best.numbers if best else self._given
        for key in sorted(current.arrays(), key=lambda key: -cost(current.arrays()[key])):
            if found := self._first(current, self._one_array(current, key)):
                best, current = found, found.numbers
        return best

    def _all_at_once(self) -> Iterator[Numbers]:
        """Yield proposals in which all arrays are changed in the same manner."""
        made = {
            key: versions(array, at, self._near(array)) for at, (key, array) in enumerate(self._given.arrays().items())
        }
        for manner in dict.fromkeys(manner for found in made.values() for manner in found):
            yield self._given.with_arrays({key: found[manner] for key, found in made.items() if manner in found})

    def _one_array(self, current: Numbers, key: tuple[str, str]) -> Iterator[Numbers]:
        """Yield proposals in which one array is changed: in every manner, from its given and from its current
        numbers."""
        at = list(current.arrays()).index(key)
        for array in (self._given.arrays()[key], current.arrays()[key]):
            for version in versions(array, at, self._near(array)).values():
                yield current.with_arrays({key: version})

    def _near(self, array: Array) -> Array | None:
        """Return the element of the array at the position of the wrong result, as for an elementwise operator, or
        None."""
        first = self._evidence.first
        if first is None:
            return None
        try:
            return np.asarray(np.broadcast_to(array, _common_shape(self._case))[first.place])
        except (ValueError, IndexError):
            return None

    def _first(self, current: Numbers, proposed: Iterator[Numbers]) -> PlainCase | None:
        """Return the plainest proposal that fails in the same way, or None. Only proposals plainer than `current` are
        tried."""
        distinct = {_bits(numbers): numbers for numbers in proposed if numbers.cost < current.cost}
        waiting = sorted(distinct.values(), key=lambda numbers: numbers.cost)
        size = BATCH if self._signature.numbers_matter and not self._given.weights else 1
        for start in range(0, len(waiting), size):
            if time.monotonic() > self._deadline:
                return None
            for found in filter(None, self._ask(waiting[start : start + size])):
                if self._is_undisputed(found):
                    return found
        return None

    def _is_undisputed(self, found: PlainCase) -> bool:
        """True if a full check, which asks a second reference for ONNX models, also blames the compiler."""
        if found.case.program.framework != "onnx":
            return True
        (checked,) = self._checker.check(found.case).results or (None,)
        return checked is not None and checked.verdict.judgement is found.verdict.judgement

    def _ask(self, many: Sequence[Numbers]) -> list[PlainCase | None]:
        """Return, for each of `many`, its case if it fails in the same way, else None. All must have the same
        weights."""
        program = self._program(many[0].weights)
        samples = tuple(Inputs(numbers.inputs, PLAIN) for numbers in many)
        case = replace(self._case, program=program, samples=samples)
        target = case.targets[0]
        reference = self._checker.reference(case)
        if reference.problem or len(reference.samples) != len(many):
            return []
        execution = self._checker.execute(case, target)
        if execution.outcome is Outcome.OK and len(execution.outputs) != len(many):
            return []
        found: list[PlainCase | None] = []
        for at, numbers in enumerate(many):
            sample = reference.samples[at]
            alone = replace(case, samples=(samples[at],))
            own = replace(execution, outputs=execution.outputs[at : at + 1])
            verdict = self._checker.judge(alone, target, own, replace(reference, samples=(sample,)))
            judged = PlainCase(alone, verdict, dict(sample.native), right_results(sample), numbers, sample)
            same = not sample.failure and self._signature.covers(Signature.of_verdict(own, verdict))
            found.append(judged if same and _tells(judged) else None)
        return found

    def _program(self, weights: Arrays) -> Program:
        """Return the program with other weights."""
        if all(array is self._given.weights[name] for name, array in weights.items()):
            return self._case.program
        import onnx

        model = onnx.load(str(self._case.program.path))
        for tensor in model.graph.initializer:
            if tensor.name in weights:
                tensor.CopyFrom(onnx.numpy_helper.from_array(weights[tensor.name], tensor.name))
        path = Path(self._folder) / "plain.onnx"
        onnx.save(model, str(path))
        kept = path.rename(path.with_name(f"{file_digest(path)}.onnx"))
        return replace(self._case.program, path=kept, digest=file_digest(kept), data=(), state="", origin="")


def versions(array: Array, at: int, near: Array | None = None) -> dict[str, Array]:
    """Return plainer arrays of the same dtype and shape, by the manner in which they were made. `at`: the seed of drawn
    numbers; `near`: an element that matters."""
    dtype, shape = array.dtype.name, tuple(map(int, array.shape))
    if array.size <= 1 or array.size > LARGEST:
        return {} if array.size != 1 else _with_fewer_digits(array)
    flat = np.ascontiguousarray(array).reshape(-1)
    odd = np.argsort(-oddness(flat.astype(numpy_dtype(dtype)))) if dtype != "bool" else np.arange(flat.size)
    made = {f"all {value}": np.full(shape, value).astype(array.dtype) for value in (0, 1)}
    for value in (0, 1):  # NaN or infinity if the array has one, ordinary numbers for the other arrays
        special = is_float(dtype) and not np.isfinite(flat[odd[0]].astype(np.float64))
        made[f"all special or {value}"] = np.full(shape, flat[odd[0]], array.dtype) if special else made[f"all {value}"]
    if near is not None:
        made["all like the wrong element"] = np.full(shape, near, dtype=array.dtype)
    for number, index in enumerate(odd[:_ODDEST]):
        made[f"all like element {number}"] = np.full(shape, flat[index], dtype=array.dtype)
    if flat.size > READ_AT_ONCE:
        for value in (0, 1):
            one = np.full(flat.size, value).astype(array.dtype)
            one[odd[0]] = flat[odd[0]]
            made[f"all {value} but one"] = one.reshape(shape)
        for number, formula in enumerate(formulas(dtype)):
            made[f"formula {number}"] = formula.array(shape, dtype, at % SEEDS if formula.seeded else 0)
    return made | _with_fewer_digits(array)


def _with_fewer_digits(array: Array) -> dict[str, Array]:
    if not is_float(array.dtype.name):
        return {}
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        size = 10.0 ** np.floor(np.log10(np.abs(np.where((wide == 0) | ~np.isfinite(wide), 1.0, wide))))
        made = {"whole numbers": np.round(wide).astype(array.dtype)}
        for digits in _DIGITS:
            scale = size / 10.0 ** (digits - 1)
            rounded = np.where(np.isfinite(wide), np.round(wide / scale) * scale, wide)
            made[f"{digits} digits"] = np.asarray(rounded).astype(array.dtype)
    return made


def _weights(case: Case) -> Arrays:
    """Return the weights of an ONNX model: its float constants, since integer constants may be shapes and axes."""
    if case.program.form != "onnx" or case.program.data:
        return {}
    import onnx

    found = {}
    for tensor in onnx.load(str(case.program.path)).graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if 1 < array.size <= LARGEST and is_float(array.dtype.name):
            found[tensor.name] = array
    return found


def _common_shape(case: Case) -> tuple[int, ...]:
    """Return the broadcast shape of all inputs: the shape of the output if the program is elementwise."""
    return np.broadcast_shapes(*(array.shape for array in case.samples[0].arrays.values()))


def _tells(found: PlainCase) -> bool:
    """True if a script with these numbers can tell the bug from rounding errors."""
    evidence = found.verdict.evidence
    if found.verdict.judgement not in (Judgement.FAIL, Judgement.REDUCED):
        return False
    shown = ShownFailure(
        str(found.verdict.kind), evidence, dtype=evidence.dtype or "float32", expected=found.expected, right=found.right
    )
    return tolerance(shown).separates


def _rounds(array: Array) -> bool:
    return is_float(array.dtype.name) or array.dtype.kind == "c"


def _bits(numbers: Numbers) -> tuple[bytes, ...]:
    return tuple(array.tobytes() for array in numbers.arrays().values())
