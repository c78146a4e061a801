"""Makes further calls of a compiled program in the worker that compiled it: one after the other, and from several
threads.

A program that is right in a first call may be wrong in the next: it returns a buffer that an earlier call filled, keeps
a value that it should compute again, or two calls at the same time write to one buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from driftline.backends.base import Backend, Compiled
from driftline.core.execution import Failure, Stage
from driftline.core.tensors import Arrays, copied
from driftline.execute.new_memory import USUAL
from driftline.execute.own_fault import is_ours
from driftline.programs.opened import OpenedProgram

Keep = Callable[[Arrays, int], str]  # stores the outputs for a sample, and returns their place on a shelf

MOST_SECONDS = 10.0  # programs whose further calls would take longer are called once
# Processor seconds: a program that takes longer to compile is not compiled again for inputs of another size.
MOST_COMPILING = 6.0
ROUNDS = 8  # calls of each thread


@dataclass(frozen=True)
class Repeated:
    """The places of the outputs of further calls, and the exception that one of them raised."""

    outputs: tuple[str, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True)
class FurtherCalls:
    """The inputs of further calls, the number of threads that finally call the program at the same time, and the byte
    in all new memory during each call. `resized`: the inputs of a last call, of another size."""

    inputs: tuple[Arrays, ...] = ()
    resized: Arrays | None = None
    threads: int = 1
    fill: int = USUAL

    def make(
        self,
        backend: Backend,
        compiled: Compiled,
        program: OpenedProgram,
        samples: Sequence[Arrays],
        outputs: list[str],
        keep: Keep,
        durations: Mapping[str, float],
        compiling: float,
    ) -> Repeated:
        """Make the calls. If threads get other outputs for a sample, these replace the sample's outputs; an exception
        in a thread is raised here. `compiling`: the processor seconds of the compilation."""
        each = durations.get(Stage.RUN.lower(), 0.0) / len(samples)
        threads = self.threads if backend.threads and not program.grad else 1
        if threads > 1 and each * threads * ROUNDS <= MOST_SECONDS:
            for index, differing in _differing(compiled, program, samples, threads):
                outputs[index] = keep(differing, index)
        places: list[str] = []
        inputs = self.inputs
        if self.resized is not None and compiling <= MOST_COMPILING:
            inputs = (*inputs, self.resized)
        if each * len(inputs) <= MOST_SECONDS:
            for index, arrays in enumerate(inputs, len(samples)):
                program.reseed()
                try:
                    returned = compiled(copied(arrays))
                except Exception as error:
                    if is_ours(error):
                        raise
                    return Repeated(tuple(places), Failure.of(error))
                places.append(keep(returned, index))
        return Repeated(tuple(places))


NO_FURTHER_CALLS = FurtherCalls()


def _differing(
    compiled: Compiled, program: OpenedProgram, samples: Sequence[Arrays], threads: int
) -> list[tuple[int, Arrays]]:
    """Return the samples whose outputs differ when several threads call the program, with the first such outputs of
    each."""
    alone = []
    for arrays in samples:
        program.reseed()
        alone.append(copied(compiled(copied(arrays))))
    for arrays, first in zip(samples, alone, strict=True):
        again = compiled(copied(arrays))  # without a seed: a program that draws random numbers returns others
        if not _same(first, again) or any(name.startswith("mutated:") for name in first):
            return []

    def calls(thread: int) -> dict[int, Arrays]:
        found: dict[int, Arrays] = {}
        for turn in range(ROUNDS):
            index = (thread + turn) % len(samples)
            got = copied(compiled(copied(samples[index])))
            if not _same(alone[index], got):
                found.setdefault(index, got)
        return found

    with ThreadPoolExecutor(max_workers=threads) as running:
        found = [job.result() for job in [running.submit(calls, thread) for thread in range(threads)]]
    return sorted({index: got for each in found for index, got in each.items()}.items())


def _same(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)
