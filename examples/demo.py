"""The demo: a sound model and a handful of known bugs, on every compiler that is installed here.

Run by `make demo`. Ends with a table of programs x compilers, and says where the findings are kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

import driftline
from driftline.backends import BACKENDS
from driftline.programs.source import guess_framework
from driftline.report.results import replay_command

HERE = Path(__file__).parent
PROGRAMS = (
    "models/mlp.py:float32",
    "models/convnet.py:float32",
    "bugs/inductor_mul_zero_nan.py:program",
    "bugs/inductor_cumsum_dtype.py:program",
    "bugs/onnxruntime_relu_clip_float64.py:program",
    "bugs/openvino_abs_int64.py:program",
    "bugs/tvm_maximum_nan.py:program",
    "bugs/tflite_softplus_inf.py:program",
    "bugs/xla_reduce_mean_int32.py:program",
)
MARKS = {"pass": "[green]pass[/]", "fail": "[bold red]FAIL[/]", "rejected": "[dim]-[/]", "inconclusive": "[yellow]?[/]"}
SLOW = ("aotinductor", "executorch")  # half a minute each: left to `driftline check`


def main() -> int:
    out = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    store = Path(".driftline")
    rows: dict[str, dict[str, str]] = {}
    found: dict[str, str] = {}
    for number, name in enumerate(PROGRAMS, 1):
        print(f"[{number}/{len(PROGRAMS)}] {name}", file=sys.stderr, flush=True)
        result = driftline.check(str(HERE / name), targets=_targets(HERE / name.partition(":")[0]), store=store)
        rows[name] = {str(row.target): str(row.verdict.judgement) for row in result.results}
        found |= {bug.id: bug.summary for bug in result.bugs.values()}
    _show(out, rows, found, store)
    return 0


def _targets(path: Path) -> list[str]:
    """Every compiler that can take the program, but for the slowest."""
    framework = guess_framework(path.read_text())
    forms = {"torch": {"source:torch", "onnx"}, "onnx": {"onnx"}}.get(framework, {f"source:{framework}"})
    fit = [name for name in BACKENDS if name not in SLOW and forms & set(BACKENDS.get(name).accepts)]
    return [name for name in fit if BACKENDS.get(name).installed().available]


def _show(out: Console, rows: dict[str, dict[str, str]], found: dict[str, str], store: Path) -> None:
    used = [name for name in BACKENDS if any(name in row for row in rows.values())]
    table = Table(title="What each compiler makes of each program", title_justify="left")
    table.add_column("compiler", no_wrap=True)
    for number, _ in enumerate(rows, 1):
        table.add_column(str(number), justify="center")
    for name in used:
        table.add_row(name, *(MARKS.get(row.get(name, ""), "") for row in rows.values()))
    out.print(table)
    for number, name in enumerate(rows, 1):
        out.print(f"  {number}  {name}")
    out.print("\n[bold]pass[/] agrees with the reference   [bold]FAIL[/] wrong   - not supported   ? not decided\n")
    for bug, summary in found.items():
        out.print(f"[bold red]{bug}[/]  {summary}", soft_wrap=True)
    first = next(iter(found), None)
    out.print(f"\n{len(found)} findings, kept in {store}. Look at them with: .venv/bin/driftline bugs list")
    if first:
        out.print(f"Run one again with: .venv/bin/{replay_command(first, store)}")


if __name__ == "__main__":
    sys.exit(main())
