"""The inputs of a run: finite special numbers at which operators break, solved inputs, or the user's own.

All inputs made here are finite: NaN and infinities in the inputs would show up in the results and hide what the model
does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np

from driftline.campaign.check.solving import solve_inputs
from driftline.checking.open import LoadedProgram
from driftline.core.case import CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.tensors import Array, Arrays, TensorSpec, is_float, numpy_dtype
from driftline.core.text import did_you_mean
from driftline.execute.pool import Pool
from driftline.inputs.domain import keeps_its_form
from driftline.inputs.files import check_inputs
from driftline.inputs.foreign.convert import FPGEN, KINDS, read_samples
from driftline.inputs.make import InputMaker
from driftline.inputs.plan import InputPlan

SPECIALS, SYMBOLIC = "specials", "symbolic"
GOALS = "nan,inf,overflow,underflow,error:1e-2"
SOLVED = 4  # inputs that solving gives a model at most
FILES = 256  # of a folder of inputs
_READABLE = (*KINDS, FPGEN)  # how names of files with inputs end


def check_source(source: str) -> None:
    """Raise an error if `source` is neither a built-in source nor an existing file or folder, before anything slow
    happens."""
    if source in (SPECIALS, SYMBOLIC):
        return
    path = Path(source)
    if not path.exists():
        raise DriftlineError(
            f"--inputs {source}: there is no such file or folder.{did_you_mean(source, (SPECIALS, SYMBOLIC))}"
            f" Give {SPECIALS}, {SYMBOLIC}, or a file or folder of inputs ({', '.join(_READABLE)})."
        )
    input_files(path)


def input_files(path: Path) -> list[Path]:
    """Return the file itself, or the input files of a folder."""
    if path.is_file():
        return [path]
    found = sorted(file for file in path.iterdir() if file.name.endswith(_READABLE))
    if not found:
        raise DriftlineError(f"--inputs {path}: the folder has no inputs; they end in {', '.join(_READABLE)}.")
    return found[:FILES]


@dataclass(frozen=True)
class InputSource:
    """Where the inputs of models come from."""

    name: str  # "specials", "symbolic", or a file or folder of inputs
    budget: float  # seconds to solve the inputs of one model
    specs: tuple[TensorSpec, ...] = ()  # what the bytes of a foreign file are


def make_inputs(
    pool: Pool, opened: LoadedProgram, maker: InputMaker, options: CheckOptions, asked: InputSource
) -> list[Inputs]:
    """Make the inputs of one model. Uses the special numbers if solving finds no inputs."""
    source = asked.name
    if source == SYMBOLIC:
        return _solved(pool, opened, maker, options, asked.budget) or special_samples(maker, options.seed)
    if source == SPECIALS:
        return special_samples(maker, options.seed)
    files = input_files(Path(source))
    return [sample for path in files for sample in _of_file(path, maker, options.seed, asked.specs)][:FILES]


def _solved(pool: Pool, opened: LoadedProgram, maker: InputMaker, options: CheckOptions, budget: float) -> list[Inputs]:
    if not any(is_float(spec.dtype) for spec in maker.specs):
        return []
    # Elements that are not solved for get ordinary numbers: the example of a composed model is zero everywhere.
    around = replace(maker, example=maker.random(options.seed, 0).arrays)
    solved = solve_inputs(pool, opened, around, options, goals=GOALS, budget=budget, most=SOLVED)
    return solved.inputs[:SOLVED]


def special_samples(maker: InputMaker, seed: int) -> list[Inputs]:
    """Return three samples: mixed edge numbers, rows of one repeated number (which cancel), and rows of numbers one ULP
    apart. Only the first contains subnormal numbers, since results of a compiler that may flush those to zero are not
    judged."""
    plans = maker.plans(0)
    made = []
    for kind in ("edges", "rows", "neighbours"):
        arrays = dict(maker.random(seed, 0).arrays)
        for number, plan in enumerate(plans):
            if is_float(plan.spec.dtype) and not keeps_its_form(plan):
                arrays[plan.spec.name] = _filled(plan, arrays[plan.spec.name], kind, number)
        made.append(Inputs(arrays, f"specials: {kind}"))
    return made


def _filled(plan: InputPlan, like: Array, kind: str, number: int) -> Array:
    values = edge_values(plan.spec.dtype, subnormal=kind == "edges")
    step = 1 + 6 * number  # of each further input, so that every number meets many others
    count = like.size if kind == "edges" else -(-like.size // max(1, _width(like)))
    chosen = values[(np.arange(count) * step + 5 * number) % len(values)]
    if kind == "edges":
        return chosen.reshape(like.shape)
    rows = np.repeat(chosen, _width(like))[: like.size].reshape(like.shape)
    if kind == "rows":
        return rows
    odd = (np.arange(like.size).reshape(like.shape) % 2 == 1) & (rows != 0)
    return np.where(odd, np.nextafter(rows, np.sign(rows)), rows)  # towards one: neither subnormal nor infinite


def _width(array: Array) -> int:
    return int(array.shape[-1]) if array.ndim else 1


def edge_values(dtype: str, *, subnormal: bool = True) -> Array:
    """Return finite numbers at which operators break, with both signs: zeros, the ends of the range and their square
    roots, the limits of exp and of its square, neighbours of 1 and poles of tan."""
    kind = numpy_dtype(dtype)
    info = ml_dtypes.finfo(kind)
    largest, normal, tiny = float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)
    last = float(np.log(largest))  # exp overflows beyond
    sizes = [
        0.0, tiny if subnormal else normal, normal, float(np.sqrt(normal)), float(info.eps), 1e-3, 0.5, 1.0,
        1.0 + float(info.eps), 1.5, 1.5707963, 3.0, 9.0, last / 2, last * 0.999, last * 1.001,
        float(-np.log(tiny)) * 1.01, 2 * last, 1e3, float(np.sqrt(largest)), float(np.sqrt(largest)) * 1.01,
        largest / 4, largest,
    ]  # fmt: skip
    signed = [value for size in sizes if size <= largest for value in (size, -size)]
    made: Array = np.array(signed, np.float64).astype(kind)
    return made


def _of_file(path: Path, maker: InputMaker, seed: int, specs: Sequence[TensorSpec]) -> list[Inputs]:
    """Read samples from a file. Samples that do not fit the model lend their numbers to its float inputs, repeated as
    needed, so that one file serves models with any inputs."""
    return [_fitted(arrays, path, maker, seed) for arrays in read_samples(path, specs)]


def _fitted(arrays: Arrays, path: Path, maker: InputMaker, seed: int) -> Inputs:
    try:
        check_inputs(arrays, maker.specs, str(path))
        return Inputs({spec.name: arrays[spec.name] for spec in maker.specs}, f"file {path.name}")
    except DriftlineError:
        return Inputs(laid(arrays, maker, seed), f"numbers of {path.name}")


def laid(arrays: Arrays, maker: InputMaker, seed: int) -> Arrays:
    """Fill the float inputs of the model one after the other with the numbers of `arrays`, repeated as needed."""
    floats = [array for array in arrays.values() if is_float(array.dtype.name)]
    numbers = np.concatenate([array.astype(np.float64).reshape(-1) for array in floats]) if floats else np.zeros(0)
    if not numbers.size:
        raise DriftlineError("--inputs: the file holds no floats; give one that does.")
    made = dict(maker.random(seed, 0).arrays)
    at = 0
    for spec in maker.specs:
        if is_float(spec.dtype):
            size = made[spec.name].size
            with np.errstate(all="ignore"):
                taken = numbers[(at + np.arange(size)) % numbers.size].astype(numpy_dtype(spec.dtype))
            made[spec.name] = taken.reshape(made[spec.name].shape)
            at += size
    return made


def write_samples(folder: Path, samples: Sequence[Inputs]) -> None:
    """Write one .npz file for each sample, which `driftline check --inputs` can read."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, sample in enumerate(samples):
        with open(folder / f"{number}.npz", "wb") as file:
            np.savez(file, **sample.arrays)  # type: ignore[arg-type]
