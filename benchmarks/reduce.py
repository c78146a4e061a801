"""How many questions until how few nodes? Driftline's reducer beside its peers, on the same programs, in one run.

    python benchmarks/reduce.py                       # everything: about an hour, most of it functorch's minifier
    python benchmarks/reduce.py --only chain,dag --seeds 2
    python benchmarks/reduce.py --only polygraphy     # after: driftline env add polygraphy==0.49.26 --with ...

- functorch's minifier: synthetic chains and DAGs of 200 calls with k marked operations, and real TorchInductor bugs;
  both are given the same plain predicate, which counts how often it is asked.
- Polygraphy's `debug reduce`: ONNX Runtime bugs in graphs of about 45 nodes; it calls a script for each question.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

SYNTHETIC = ("chain", "dag", "mixed", "same", "value")
MARKED = (1, 2, 3)


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


def by_functorch(case: Any) -> Row:
    from _reduce_cases import calls
    from functorch.compile import minifier

    asked = 0

    def fails(module: Any, inputs: list[Any]) -> bool:
        nonlocal asked
        asked += 1
        return bool(case.fails(module, inputs))

    began = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        module, inputs = minifier(case.module, case.inputs, fails, dump_state=lambda *_, **__: None)
    return Row(case.name, "functorch", case.calls, calls(module), len(inputs), asked, time.monotonic() - began)


def synthetic_rows(shape: str, seeds: int) -> Iterator[Row]:
    from _reduce_cases import synthetic

    for marked in MARKED:
        for seed in range(seeds):
            case = synthetic(shape, marked, seed)
            yield by_driftline(case)
            yield by_functorch(case)


def inductor_rows() -> Iterator[Row]:
    from _reduce_cases import inductor_cases

    for case in inductor_cases():
        yield by_driftline(case)
        yield by_functorch(case)


# -- ONNX models: Polygraphy -------------------------------------------------------------------------------------------


def polygraphy_rows(seeds: int) -> Iterator[Row]:
    from _reduce_polygraphy import by_polygraphy, failing_models, onnx_by_driftline

    for name, model in failing_models(seeds):
        yield Row(**onnx_by_driftline(name, model))
        for mode in ("bisect", "linear"):
            yield Row(**by_polygraphy(name, model, mode))


# -- the run -----------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join((*SYNTHETIC, "inductor", "polygraphy")))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write every single result here")
    given = parser.parse_args()
    rows: list[Row] = []
    makers: dict[str, Callable[[], Iterator[Row]]] = {
        **{shape: (lambda shape=shape: synthetic_rows(shape, given.seeds)) for shape in SYNTHETIC},
        "inductor": inductor_rows,
        "polygraphy": lambda: polygraphy_rows(given.seeds),
    }
    for name in given.only.split(","):
        for row in makers[name]():
            print(
                f"{row.case:28s} {row.reducer:18s} {row.before:4d} -> {row.left:3d} nodes, {row.inputs} inputs,"
                f" {row.queries:5d} queries, {row.seconds:6.1f} s {row.trouble}",
                flush=True,
            )
            rows.append(row)
            if given.json:
                given.json.write_text(json.dumps([asdict(r) for r in rows], indent=1))
    print_medians(rows)


def print_medians(rows: list[Row]) -> None:
    """By kind of case: the medians over seeds, and whether the promise holds."""
    print("\n| case | reducer | queries | nodes left | unfinished |\n|---|---|---|---|---|")
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.case.partition(" seed")[0], row.reducer), []).append(row)
    for (case, reducer), members in groups.items():
        done = [row for row in members if not row.trouble]
        queries = f"{statistics.median(row.queries for row in done):g}" if done else "-"
        left = f"{statistics.median(row.left for row in done):g}" if done else "-"
        print(f"| {case} | {reducer} | {queries} | {left} | {len(members) - len(done)} of {len(members)} |")


if __name__ == "__main__":
    main()
