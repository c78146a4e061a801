"""How many questions until how few nodes? Driftline's reducer beside its peers, on the same programs, in one run.

    python benchmarks/reduce.py --json results.json   # everything: more than an hour, most of it functorch's minifier
    python benchmarks/reduce.py --only chain,dag --seeds 2
    python benchmarks/reduce.py --only polygraphy     # after: driftline env add polygraphy==0.49.26 --with ...

- functorch's minifier: synthetic chains and DAGs of 200 calls with k marked operations, and real TorchInductor bugs;
  both are given the same plain predicate, which counts how often it is asked. The minifier is stopped after
  `--patience` questions; what it had by then is counted. In the `bare` ones nothing tells one call from another: it
  takes 14 yes-or-no questions to find two of 200, and 20 to find three, so where the minifier is lucky and asks less
  than 140 or 200 no reducer can keep to a tenth of that except by luck too.
- Polygraphy's `debug reduce`: ONNX Runtime bugs in models of about 45 nodes; it calls a script for each question. It
  ends when the nodes are found; Driftline goes on to shapes, dtypes, attributes and values, and proves that no single
  step is left. So three things are told: the questions until no node goes any more, what Driftline has left when it
  has asked as often as Polygraphy did in all, and the questions for the whole. One of its own is a program that the
  compiler is given once; once the nodes are found that may be on up to 64 inputs, each judged by itself.
- diagnosis: the wall time of `driftline diagnose`, on what a short hunt finds and on whole programs.

With `--json` a run that was stopped goes on where it was: what the file holds is not measured again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from _reduce_standing import print_medians, print_standing

SYNTHETIC = ("chain", "dag", "mixed", "same", "bare", "value")
MARKED = (1, 2, 3)
SECTIONS = (*SYNTHETIC, "inductor", "polygraphy", "polygraphy-linear", "diagnosis-hunt", "diagnosis-whole")


@dataclass(frozen=True)
class Row:
    """One reducer on one program."""

    case: str
    reducer: str
    before: int
    left: int
    inputs: int
    queries: int
    seconds: float
    trouble: str = ""
    elements: int = 0  # of inputs and constants that are left; 0 where it was not counted
    all_queries: int = 0  # with those after the last node was gone: shapes, dtypes, attributes, values, the proof
    load: float = 0.0  # of the machine when it was done
    trail: Sequence[Sequence[int]] = ()  # queries, and the nodes and elements left by then; only where a peer needs it

    def after(self, queries: int) -> tuple[int, int]:
        """The nodes and elements that were left when it had asked so often."""
        reached = [(nodes, elements) for asked, nodes, elements in self.trail if asked <= queries]
        return reached[-1] if reached else (self.before, sys.maxsize)


Measurement = tuple[str, str, Callable[[], Row]]  # the case, the reducer, and how to measure


# -- torch graphs: a plain predicate -----------------------------------------------------------------------------------


def by_driftline(case: Any) -> Row:
    import torch.fx as fx
    from _reduce_cases import calls

    from driftline.diagnose.reduce.fx_graph import build, evaluate_torch, laid_out, read_graph
    from driftline.diagnose.reduce.nodes import reduce_graph
    from driftline.diagnose.reduce.values import Values
    from driftline.programs.torch_tensors import array_from_tensor

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        values = Values(Path(folder))
        arrays = [[array_from_tensor(tensor) for tensor in case.inputs]]
        start = read_graph(case.module, case.inputs, case.inputs, arrays, set(), values)

        def live(graph: Any) -> tuple[Any, list[Any]]:
            made, names = build(graph)
            tensors = {leaf.number: laid_out(values.load(leaf.data)[0], leaf.type) for leaf in graph.leaves}
            owned = {names[leaf.number]: tensors[leaf.number] for leaf in graph.leaves if leaf.constant}
            given = [tensors[leaf.number] for leaf in graph.leaves if not leaf.constant]
            return fx.GraphModule(owned, made), given

        search = reduce_graph(
            start, lambda graph: case.fails(*live(graph)), lambda graph: evaluate_torch(graph, values, 1)
        )
        module, given = live(search.best)
    assert case.fails(module, given)
    return Row(case.name, "driftline", case.calls, calls(module), len(given), search.queries, time.monotonic() - began)


class _OutOfPatience(BaseException):
    """Not an error: the minifier takes those for an answer."""


def by_functorch(case: Any, patience: int) -> Row:
    from _reduce_cases import calls
    from functorch.compile import minifier

    asked = 0
    best = (case.module, case.inputs)

    def fails(module: Any, inputs: list[Any]) -> bool:
        nonlocal asked, best
        if asked >= patience:
            raise _OutOfPatience
        asked += 1
        failing = bool(case.fails(module, inputs))
        if failing and calls(module) < calls(best[0]):
            best = (module, inputs)
        return failing

    began = time.monotonic()
    trouble = ""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            best = minifier(case.module, case.inputs, fails, dump_state=lambda *_, **__: None)
        except _OutOfPatience:
            trouble = f"stopped after {patience} questions"
    module, inputs = best
    seconds = time.monotonic() - began
    return Row(case.name, "functorch", case.calls, calls(module), len(inputs), asked, seconds, trouble)


def torch_measurements(cases: Callable[[], list[Any]], patience: int) -> Iterator[Measurement]:
    for case in cases():
        yield case.name, "driftline", lambda case=case: by_driftline(case)
        yield case.name, "functorch", lambda case=case: by_functorch(case, patience)


def synthetic_cases(shape: str, seeds: int) -> list[Any]:
    """The first programs that fail: where values matter, some draws have lost the error by their end."""
    from _reduce_cases import synthetic

    chosen: list[Any] = []
    for marked in MARKED:
        drawn = (synthetic(shape, marked, seed) for seed in range(10 * seeds))
        failing = (case for case in drawn if case.fails(case.module, case.inputs))
        chosen += itertools.islice(failing, seeds)
    return chosen


def inductor_cases() -> list[Any]:
    from _reduce_cases import inductor_cases

    return inductor_cases()


# -- ONNX models: Polygraphy -------------------------------------------------------------------------------------------


def polygraphy_measurements(seeds: int, mode: str) -> Iterator[Measurement]:
    from _reduce_onnx import bugs
    from _reduce_polygraphy import by_polygraphy, onnx_by_driftline

    for bug in bugs(seeds):
        yield bug.name, "driftline", lambda bug=bug: Row(**onnx_by_driftline(bug))
        yield bug.name, f"polygraphy {mode}", lambda bug=bug: Row(**by_polygraphy(bug, mode))


# -- whole diagnoses ---------------------------------------------------------------------------------------------------


def diagnosis_measurements(group: str) -> Iterator[Measurement]:
    import _reduce_diagnosis

    subjects = _reduce_diagnosis.hunted_bugs if group == "hunt" else _reduce_diagnosis.whole_programs
    for name, subject in subjects():
        case = f"diagnosis ({group}): {name}"
        yield case, "driftline", lambda case=case, subject=subject: Row(**_reduce_diagnosis.diagnose(case, subject))


# -- the run -----------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--patience", type=int, default=3000, help="questions that the minifier may ask")
    parser.add_argument("--json", type=Path, help="keep every single result here, and do not measure it again")
    given = parser.parse_args()
    makers: dict[str, Callable[[], Iterator[Measurement]]] = {
        **{
            shape: lambda shape=shape: torch_measurements(lambda: synthetic_cases(shape, given.seeds), given.patience)
            for shape in SYNTHETIC
        },
        "inductor": lambda: torch_measurements(inductor_cases, given.patience),
        "polygraphy": lambda: polygraphy_measurements(given.seeds, "bisect"),
        "polygraphy-linear": lambda: polygraphy_measurements(given.seeds, "linear"),
        "diagnosis-hunt": lambda: diagnosis_measurements("hunt"),
        "diagnosis-whole": lambda: diagnosis_measurements("whole"),
    }
    kept = json.loads(given.json.read_text()) if given.json and given.json.exists() else []
    rows = {(row["case"], row["reducer"]): Row(**row) for row in kept}
    for section in given.only.split(","):
        for case, reducer, measure in makers[section]():
            if (case, reducer) in rows:
                continue
            row = Row(**{**asdict(measure()), "load": round(os.getloadavg()[0], 1)})
            rows[case, reducer] = row
            print(_line(row), flush=True)
            if given.json:
                given.json.write_text(json.dumps([asdict(r) for r in rows.values()], indent=1))
    print_medians(list(rows.values()))
    print_standing(list(rows.values()))


def _line(row: Row) -> str:
    elements = f", {row.elements:,} elements" if row.elements else ""
    whole = f" ({row.all_queries} in all)" if row.all_queries > row.queries else ""
    return (
        f"{row.case:34s} {row.reducer:17s} {row.before:4d} -> {row.left:3d} nodes, {row.inputs} inputs{elements},"
        f" {row.queries:5d} queries{whole}, {row.seconds:6.1f} s, load {row.load:.1f} {row.trouble}"
    )


if __name__ == "__main__":
    main()
