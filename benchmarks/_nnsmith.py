"""NNSmith beside us: an environment of its own, its generator, and its fuzzer on ONNX Runtime.

NNSmith 0.1.0 is what PyPI has (January 2023). It names no versions of what it needs and does not run on today's:

- z3 5 solves its constraints with sizes it did not expect (an assertion in `Reshape`): the z3 of its day (4.12.1
  has no wheel for 64-bit Arm: 4.12.2); which imports `pkg_resources`, that setuptools no longer has;
- its ONNX Runtime backend calls `onnx._serialize`, which went with onnx 1.15: onnx 1.14.1, and numpy 1 with it;
- `torch.onnx.export` has another exporter as its default (see `_nnsmith_inside.py`).

torch and onnxruntime are those of this workbench, so that both fuzzers look at the same compiler.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.text import normalise_message
from driftline.execute.pool import Pool

VERSION = "0.1.0"
FOLDER = "DRIFTLINE_BENCH_ENVIRONMENTS"  # where the environment is made, if not in the cache
_PINS = (f"nnsmith=={VERSION}", "z3-solver==4.12.2.0", "setuptools<80", "onnx==1.14.1", "numpy<2")
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_INSIDE = Path(__file__).with_name("_nnsmith_inside.py")
_TOTALS = {
    "tests": r"Total (\d+) testcases generated",
    "reports": r"Total (\d+) bugs found",
    "failed": r"Total (\d+) failed to make",
}


class NoPeer(Exception):
    """NNSmith cannot be had or does not run here, and why."""


def install() -> Path:
    """The python of NNSmith's environment; made on the first call, which takes some minutes and 1.3 GB."""
    home = Path(os.environ.get(FOLDER) or Path.home() / ".cache" / "driftline" / "environments-bench")
    folder = home / f"nnsmith-{VERSION}"
    python, stamp = folder / "bin" / "python", folder / "installed"
    wanted = [f"{name}=={importlib.metadata.version(name)}" for name in ("torch", "onnxruntime")] + list(_PINS)
    if stamp.is_file() and stamp.read_text() == "\n".join(wanted):
        return python
    if "+" not in wanted[0]:
        raise NoPeer(f"{wanted[0]} is not a CPU build: installing it again would fetch gigabytes of GPU libraries")
    print(f"Making an environment for NNSmith in {folder} ...", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    _checked([sys.executable, "-m", "venv", str(folder)])
    pip = [str(python), "-m", "pip", "install", "--quiet", *wanted]
    try:
        _checked(pip)
    except NoPeer:  # CPU builds of torch are not on PyPI
        _checked([*pip, "--extra-index-url", _CPU_INDEX])
    stamp.write_text("\n".join(wanted))
    return python


def _checked(command: Sequence[str]) -> None:
    variables = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=1200)
    except subprocess.TimeoutExpired as error:
        raise NoPeer(f"{' '.join(command[:6])} took more than twenty minutes") from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise NoPeer(f"{' '.join(command[2:5])}: {last[0]}")


def _started(python: Path, arguments: Sequence[str], log: Path, **options: Any) -> subprocess.Popen[str]:
    variables = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONNOUSERSITE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        # What its operators can do on this release is found out once and kept; not where a plain NNSmith would look.
        "XDG_CACHE_HOME": str(python.parents[1] / "cache"),
    }
    variables.pop("PYTHONPATH", None)
    with open(log, "w") as errors:
        return subprocess.Popen(
            [str(python), str(_INSIDE), *arguments], env=variables, stderr=errors, text=True, cwd=log.parent, **options
        )


# -- its generator -----------------------------------------------------------------------------------------------------


class PeerGenerator:
    """A process that makes NNSmith's programs when asked."""

    def __init__(self, python: Path, scratch: Path) -> None:
        self._log = scratch / "nnsmith-generate.log"
        self._process = _started(python, ["generate"], self._log, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, form: str, seconds: float, nodes: int, seed: int) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        asked = {"form": form, "seconds": seconds, "nodes": nodes, "seed": seed}
        try:
            print(json.dumps(asked), file=self._process.stdin, flush=True)
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError) as error:
            raise NoPeer(f"its generator ended: {_last(self._log)}") from error
        if not answer["made"]:
            raise NoPeer(f"it makes no {form} program: {answer['reason'].strip().splitlines()[-1]}")
        return answer

    def __enter__(self) -> PeerGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def make_programs(python: Path, folder: Path, form: str, seconds: float, seed: int) -> None:
    """Its programs for the planted compilers, written to the folder; see `_detection_nnsmith.py`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "nnsmith.log"
    arguments = ["plants", str(folder.resolve()), form, str(seconds), str(seed)]
    if _started(python, arguments, log, stdout=subprocess.DEVNULL).wait():
        raise NoPeer(f"its generator ended: {_last(log)}")


# -- its fuzzer --------------------------------------------------------------------------------------------------------


@dataclass
class Fuzzed:
    """What some processes of `nnsmith.fuzz` brought in the same time."""

    seconds: float
    processes: int
    tests: int = 0
    reports: int = 0
    failed: int = 0  # programs that could not be made
    errors: Counter[str] = field(default_factory=Counter)  # reports of errors, by message
    mismatches: int = 0  # reports of wrong results
    mismatch_sets: set[tuple[str, ...]] = field(default_factory=set)  # the operators of those models
    judged: Counter[str] = field(default_factory=Counter)  # the same reports, judged by Driftline
    died: str = ""

    @property
    def per_minute(self) -> float:
        return self.tests / self.seconds * 60

    @property
    def distinct(self) -> int:
        """At most: NNSmith does not reduce, so that one cause may show in many sets of operators."""
        return len(self.errors) + len(self.mismatch_sets)

    def to_json(self) -> dict[str, Any]:
        sets = [" ".join(names) for names in sorted(self.mismatch_sets)]
        return {**vars(self), "mismatch_sets": sets, "per_minute": self.per_minute, "distinct": self.distinct}


def fuzz(python: Path, scratch: Path, seconds: int, *, seed: int, processes: int, crash_safe: bool) -> Fuzzed:
    """`nnsmith.fuzz` on ONNX Runtime with its defaults, once on each core."""
    result = Fuzzed(seconds, processes)
    running = []
    for number in range(processes):
        root = scratch / f"nnsmith-{'safe' if crash_safe else 'plain'}-{number}"
        root.mkdir()
        log = root / "log"
        arguments = [
            "fuzz",
            f"fuzz.time={seconds}s",
            f"fuzz.root={root / 'reports'}",
            f"fuzz.seed={seed + number + 1}",
            f"fuzz.crash_safe={str(crash_safe).lower()}",
            "model.type=onnx",
            "backend.type=onnxruntime",
            f"hydra.run.dir={root / 'hydra'}",
        ]
        running.append((root, log, _started(python, arguments, log, stdout=subprocess.DEVNULL)))
    for root, log, process in running:
        try:
            process.wait(timeout=3 * seconds + 300)  # it finds out first what the compiler supports
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        text = log.read_text(errors="replace") + "".join(p.read_text() for p in (root / "hydra").glob("*.log"))
        if process.returncode:
            result.died = f"exit code {process.returncode}: {_last(log)}"
        for name, pattern in _TOTALS.items():
            found = re.search(pattern, text)
            started = text.count("Timing:") if name == "tests" else 0  # killed: what it had said until then
            setattr(result, name, getattr(result, name) + (int(found.group(1)) if found else started))
        _sort(root / "reports", result)
    if not result.tests:
        raise NoPeer(f"nnsmith.fuzz ran no test: {result.died or _last(running[0][1])}")
    return result


def _sort(folder: Path, result: Fuzzed) -> None:
    """Group the reports as far as they can be: errors by message, wrong results by the operators of the model."""
    import onnx

    for report in folder.glob("bug-*"):
        meta = json.loads((report / "meta.json").read_text())
        if meta["symptom"] == "inconsistency":
            model = onnx.load(report / "model.onnx")
            result.mismatch_sets.add(tuple(sorted({node.op_type for node in model.graph.node})))
            result.mismatches += 1
        else:
            lines = (report / "err.log").read_text().strip().splitlines() or [meta["symptom"]]
            result.errors[normalise_message(lines[-1])] += 1


def judge_reports(python: Path, scratch: Path, result: Fuzzed, most: int) -> None:
    """What does Driftline say to NNSmith's reports? The same models and inputs, through the ordinary check."""
    with Pool() as pool:
        checker = Checker(pool, jobs=2)
        options = CheckOptions()
        for reports in sorted(scratch.glob("nnsmith-plain-*/reports")):
            _started(python, ["unpack", str(reports)], reports.parent / "unpack.log").wait()
            for report in sorted(reports.glob("bug-*"))[:most]:
                try:
                    opened = open_program(str(report / "model.onnx"), pool, options)
                    with np.load(report / "inputs.npz") as arrays:
                        given = Inputs(dict(arrays), "nnsmith")
                    outcome = checker.check(Case(opened.program, (given,), (Target("onnxruntime"),), options))
                except (DriftlineError, OSError):
                    result.judged["not readable"] += 1
                    continue
                (verdict,) = [r.verdict for r in outcome.results] or [None]
                kind = "inconsistency" if "INCONSISTENCY" in report.name else "error"
                result.judged[f"{kind}: {verdict.judgement if verdict else 'skipped'}"] += 1


def _last(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1][:200] if lines else "it said nothing"
