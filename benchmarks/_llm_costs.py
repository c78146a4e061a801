"""What it costs to see which rules fire, and to shut programs in: each beside the same work without it, in turns.

Seconds are of a processor, of all processes together: on a busy machine a clock on the wall measures the others. Every
pair starts with the other of the two, so that what warms up favours neither.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

FORMS = {"xla": "jax", "tensorflow-xla": "tensorflow", "tflite": "tensorflow", "inductor": "torch"}
_READS_FLAGS_ONCE = ("tensorflow-xla",)  # so one process watches, and another one does not
_FORKS = 100


# -- watching --------------------------------------------------------------------------------------------------------


def watching(compiler: str, programs: int, seed: int) -> None:
    """Programs of the generator `graph`, each compiled once to warm up, then twice watched and twice not."""
    ways = ("watched", "bare") if compiler in _READS_FLAGS_ONCE else ("watched,bare",)
    took: dict[str, dict[str, float]] = {}
    for way in ways:
        done = subprocess.run(
            [sys.executable, __file__, compiler, str(programs), str(seed), way], capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(done.stderr)
        for number, seconds in json.loads(done.stdout.splitlines()[-1]).items():
            took.setdefault(number, {}).update(seconds)
    pairs = [(one["bare"], one["watched"]) for one in took.values() if len(one) == 2]
    plain, watched = (sum(pair[side] for pair in pairs) for side in (0, 1))
    ratios = sorted(seen / bare for bare, seen in pairs)
    print(
        f"{compiler:14} {len(pairs)} programs, {plain:.1f} s; watched {100 * (watched / plain - 1):+.1f} %"
        f" (median {100 * (statistics.median(ratios) - 1):+.1f} %, largest {100 * (ratios[-1] - 1):+.1f} %)"
    )


def _watch(compiler: str, programs: int, seed: int, ways: Sequence[str]) -> dict[int, dict[str, float]]:
    """Seconds for each program in each of these ways. In a process of its own, which has one compiler."""
    from driftline.backends import BACKENDS
    from driftline.checking.batch_tasks import write_program
    from driftline.generate import GENERATORS
    from driftline.generate.base import GeneratorRequest, NoProgram
    from driftline.programs.opened import OpenedProgram

    backend, form, generator = BACKENDS.get(compiler), FORMS[compiler], GENERATORS.get("graph")
    if compiler in _READS_FLAGS_ONCE and "watched" not in ways:
        backend._dump_passes = lambda: None  # type: ignore[attr-defined]
    rng, arms = random.Random(seed), list(generator.arms(form))
    took: dict[int, dict[str, float]] = {}

    def seconds(path: Path, way: str) -> float:
        opened = OpenedProgram(write_program(made, path, "program"), example=example)
        opened.live  # noqa: B018, loaded before the clock runs
        with backend.watching() if way == "watched" else _uncached(compiler) as behaviour:
            began = time.process_time()
            backend.compile(opened, {})
            if behaviour:
                behaviour(opened)
            return time.process_time() - began

    with tempfile.TemporaryDirectory() as folder:
        for number in range(10 * programs):
            try:
                made = generator.make(GeneratorRequest(form, rng.choice(arms), number, seed))
                path = Path(folder) / f"{number}.program"
                live = OpenedProgram(write_program(made, path, "program"), example={}).live
                example = live.example_arrays()
                for way in ways:
                    seconds(path, way)
            except NoProgram:
                continue
            except Exception as error:
                print(f"left out: {type(error).__name__}: {error}"[:200], file=sys.stderr)
                continue
            order = ways if number % 2 else ways[::-1]
            took[number] = dict.fromkeys(ways, 0.0)
            for way in (*order, *order[::-1]):
                took[number][way] += seconds(path, way)
            if len(took) == programs:
                break
    return took


@contextlib.contextmanager
def _uncached(compiler: str) -> Iterator[None]:
    """Not watched, but compiled as anew as what is watched."""
    if compiler != "inductor":
        yield
        return
    import torch._functorch.config
    import torch._inductor.config

    with (
        torch._inductor.config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield


# -- the sandbox -----------------------------------------------------------------------------------------------------


def sandbox_of_a_worker() -> None:
    """What entering it takes a process that was forked with torch imported, as workers are."""
    import torch  # noqa: F401

    from driftline.execute import sandbox

    took = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(_FORKS):
            read, write = os.pipe()
            if (pid := os.fork()) == 0:
                began = time.perf_counter()
                sandbox.enter([folder, tempfile.gettempdir()])
                os.write(write, str(time.perf_counter() - began).encode())
                os._exit(0)
            os.waitpid(pid, 0)
            took.append(1000 * float(os.read(read, 100)))
            os.close(read)
            os.close(write)
    took.sort()
    median, most = statistics.median(took), took[int(0.95 * _FORKS) - 1]
    print(f"a worker   {median:.2f} ms (median of {_FORKS}), 95 % within {most:.2f}, the longest {took[-1]:.2f}")


def sandbox_of_a_hunt(hunt: Callable[[Path], object], folder: Path, pairs: int) -> None:
    """The same hunt with the sandbox and without it, each with caches of its own, after one that warms up."""
    from driftline.execute.sandbox import SWITCH

    hunt(folder / "warm")
    ratios = []
    for pair in range(pairs):
        took = {}
        for switch in ("on", "off") if pair % 2 else ("off", "on"):
            os.environ[SWITCH] = switch
            os.environ["DRIFTLINE_CACHE"] = str(folder / f"{pair}-{switch}-cache")
            began = _processor_seconds()
            hunt(folder / f"{pair}-{switch}")
            took[switch] = _processor_seconds() - began
        ratios.append(took["on"] / took["off"])
        print(f"a hunt     {took['off']:.1f} s, with it {100 * (ratios[-1] - 1):+.1f} %", flush=True)
    print(f"together   {100 * (statistics.mean(ratios) - 1):+.1f} %")


def _processor_seconds() -> float:
    """Of this process, and of all that it waited for."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


if __name__ == "__main__":
    print(json.dumps(_watch(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split(","))))
