"""Does a cause hide a new bug? Invented failures of real compilers, right beside what the causes know.

    python benchmarks/causes.py
    python benchmarks/causes.py --only 'openvino:*' --json

Each row is a program that a released compiler gets right, and a fault planted into what that compiler returns, under
the compiler's own name (`driftline.testing.plants`): integer MatMul off by one on OpenVINO, a bfloat16 convolution with
a lost channel, argmax of int8 off by one. Each is checked and recorded as `driftline check` does, experiments included.
The same program without the plant is checked beside it and must pass: otherwise the failure may be the compiler's own,
and the row is not counted. None may be explained by a cause; all must be new bugs. Exits 1 when one is swallowed, or
when fewer than 40 were counted.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from _lines import append_line, read_lines

from driftline.campaign.check.session import check_program
from driftline.causes import Library, builtin
from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Status
from driftline.execute.pool import Pool
from driftline.report.annotated import causes_of
from driftline.store import Store
from driftline.testing import plants_plugin

ENOUGH = 40
_INTS = "torch.arange(1, 13, dtype=torch.{0}).reshape(3, 4)"
_FLOATS = "torch.linspace(0.5, 2.5, 12, dtype=torch.{0}).reshape(3, 4)"
_SQUARE = "torch.linspace(0.5, 2.5, 16, dtype=torch.{0}).reshape(4, 4)"
_IMAGE = "torch.linspace(-1, 1, 128, dtype=torch.{0}).reshape(1, 2, 8, 8)"
_KERNEL = "torch.linspace(-1, 1, 72, dtype=torch.{0}).reshape(4, 2, 3, 3)"
_NOTHING = "torch.ones(3, 0, dtype=torch.{0})"
_FLAGS = "torch.tensor([True, False, True], dtype=torch.{0})"
_TEXT = """import torch
import torch.nn.functional as F


def program():
    return (lambda {names}: {body}), ({inputs},)
"""


@dataclass(frozen=True)
class Invented:
    """One failure: a program in one dtype, and what is planted into the compiler."""

    name: str
    compiler: str
    plant: str
    body: str
    inputs: tuple[str, ...]

    @property
    def text(self) -> str:
        names = ", ".join("abcd"[: len(self.inputs)])
        return _TEXT.format(names=names, body=self.body, inputs=", ".join(self.inputs))

    @property
    def target(self) -> str:
        return f"{self.compiler}:plant={self.plant}"


def _one(compiler: str, rows: str) -> Iterator[Invented]:
    """`dtype | plant | what | body`, one to a line; what says which inputs there are."""
    given = {
        "ints": (_INTS,),
        "two-ints": (_INTS, _INTS),
        "floats": (_FLOATS,),
        "two-floats": (_FLOATS, _FLOATS),
        "square": (_SQUARE, _SQUARE),
        "image": (_IMAGE, _KERNEL),
        "one-image": (_IMAGE,),
        "nothing": (_NOTHING,),
        "flags": (_FLAGS, _FLAGS),
    }
    for row in rows.strip().splitlines():
        dtype, plant, what, body = (part.strip() for part in row.split("|"))
        inputs = tuple(text.format(dtype) for text in given[what])
        yield Invented(f"{compiler}: {body} of {dtype}, {plant}", compiler, plant, body, inputs)


INVENTED = (
    *_one(
        "openvino",
        """
        int32 | off-by-one | two-ints | a @ b.T
        int64 | off-by-one | ints | torch.abs(a)
        int64 | lost-tail | ints | torch.neg(a)
        int64 | off-by-one | two-ints | a + b
        int32 | off-by-one | two-ints | torch.floor_divide(a, b)
        int32 | off-by-one | two-ints | torch.remainder(a, b)
        int64 | doubled | ints | torch.sum(a, 1)
        int64 | off-by-one | ints | torch.cumsum(a, 1)
        int8 | off-by-one | ints | torch.argmax(a, 1)
        float32 | off-by-one | floats | torch.argmin(a, 1)
        float32 | shuffled | floats | torch.topk(a, 3).values
        float32 | shuffled | floats | torch.sort(a).values
        float16 | lost-channel@float16 | image | F.conv2d(a, b)
        bfloat16 | one-element | square | a @ b
        float16 | lost-tail | floats | torch.softmax(a, 1)
        float64 | lost-tail | floats | torch.exp(a)
        float64 | infinity-made | two-floats | a + b
        float32 | nan-made | two-floats | torch.maximum(a, b)
        float32 | negated | floats | torch.round(a)
        float32 | other-error | floats | torch.relu(a)
        int32 | off-by-one | two-ints | a * b
        int32 | one-element | two-ints | a + b
        int32 | lost-tail | two-ints | a - b
        int32 | doubled | ints | torch.neg(a)
        int32 | off-by-one | ints | torch.argmax(a, 1)
        int32 | shuffled | ints | torch.topk(a, 3).values
        int8 | off-by-one | two-ints | a + b
        float32 | shuffled | floats | torch.softmax(a, 1)
        float32 | nan-made | square | torch.softmax(a @ b, 1) @ a
        float32 | infinity-made | square | torch.softmax(a @ b, 1) @ a
        float32 | nan-made | floats | F.softplus(a)
        float32 | doubled | floats | F.softplus(a)
        float32 | lost-tail | floats | F.logsigmoid(a)
        float32 | infinity-made | floats | torch.amax(a, 1)
        int64 | zeros | ints | torch.prod(a, 1)
        int64 | doubled | nothing | torch.sum(a, 1, keepdim=True)
        bool | other-error | flags | torch.where(a, b, b)
        """,
    ),
    *_one(
        "onnxruntime",
        """
        float16 | lost-channel@float16 | square | a @ b
        float16 | doubled | floats | F.gelu(a)
        float64 | one-element | floats | F.layer_norm(a, (4,))
        uint8 | off-by-one | two-ints | a + b
        int8 | off-by-one | ints | torch.argmin(a, 1)
        int32 | shuffled | ints | torch.topk(a, 3).values
        float32 | lost-channel | image | F.conv2d(a, b)
        float32 | one-element | floats | torch.amax(a, 1)
        float32 | nan-made | floats | torch.amax(a, 1)
        float32 | infinity-made | floats | torch.exp(a)
        float32 | off-by-one | floats | torch.round(a)
        float32 | other-error | floats | torch.clamp(torch.relu(a), 0, 2)
        float32 | other-error-run | floats | torch.sum(a, 1)
        float32 | segfault | floats | torch.abs(a)
        float32 | lost-channel | one-image | F.max_pool2d(a, 2)
        float32 | infinity-made | one-image | F.max_pool2d(a, 2)
        float32 | nan-made | one-image | F.adaptive_max_pool2d(a, 1)
        float32 | one-element | square | a @ b + a
        float32 | lost-tail | image | torch.relu(F.conv2d(a, b))
        """,
    ),
    *_one(
        "tvm",
        """
        float32 | nan-made | two-floats | torch.maximum(a, b)
        float16 | doubled@float16 | floats | torch.sum(a, 1)
        float16 | lost-channel | square | a @ b
        int8 | off-by-one | ints | torch.argmax(a, 1)
        int32 | off-by-one | two-ints | torch.floor_divide(a, b)
        float32 | one-element | floats | torch.exp(a)
        float32 | lost-channel | image | F.conv2d(a, b)
        float32 | lost-tail | floats | torch.softmax(a, 1)
        float32 | doubled | floats | torch.erf(a)
        float32 | segfault | floats | torch.abs(a)
        float32 | other-error | floats | torch.reshape(a, (4, 3))
        float32 | one-element | floats | torch.tanh(a)
        float32 | off-by-one | floats | torch.atanh(a / 4)
        float32 | lost-tail | floats | F.tanhshrink(a)
        float16 | lost-channel | image | F.conv2d(a, b)
        float32 | one-element | square | a @ b + a
        """,
    ),
    *_one(
        "inductor",
        """
        float32 | off-by-one | floats | a * 0
        uint8 | off-by-one | two-ints | a + b
        float32 | off-by-one | two-floats | torch.floor_divide(a, b)
        int32 | off-by-one | ints | torch.cumsum(a, 1)
        bfloat16 | doubled@bfloat16 | floats | torch.sum(a, 1)
        bfloat16 | lost-channel@bfloat16 | image | F.conv2d(a, b)
        float32 | other-error | floats | torch.exp(a)
        float32 | infinity-made | floats | torch.acosh(a + 1)
        float32 | nan-made | floats | F.softshrink(a)
        float16 | off-by-one | floats | F.softshrink(a)
        float32 | lost-channel | square | torch.addmm(a, a, b)
        """,
    ),
    *_one(
        "iree",
        """
        float32 | negated | floats | a ** -2.0
        float32 | infinity-made | floats | a ** -2.0
        """,
    ),
    *_one(
        "executorch",
        """
        float32 | other-error | floats | F.pad(a, (1, 1))
        float32 | lost-head | floats | F.pad(a, (1, 1))
        float32 | nan-made | one-image | F.max_pool2d(a, 2)
        """,
    ),
    *_one(
        "torchscript",
        """
        float32 | nan-made | floats | torch.tanh(a) * torch.sigmoid(a)
        float32 | zeros | floats | torch.tanh(a) * torch.sigmoid(a)
        """,
    ),
)


@dataclass(frozen=True)
class Row:
    """What became of an invented failure."""

    name: str
    verdict: str
    status: str
    causes: tuple[str, ...]
    seconds: float
    reason: str

    @property
    def asked(self) -> bool:
        return self.verdict in ("fail", "reduced-precision")

    @property
    def swallowed(self) -> bool:
        return self.asked and (bool(self.causes) or self.status != Status.NEW)


def main() -> int:
    arguments = _arguments()
    chosen = [one for one in INVENTED if fnmatch.fnmatch(one.name, arguments.only)]
    done = {row.name: row for row in _kept(arguments.results)}
    rows: list[Row] = []
    with Pool() as pool:
        checker = Checker(pool, jobs=1)
        for one in chosen:
            row = done.get(one.name) or run(one, checker, builtin())
            rows.append(row)
            print(_line(row), file=sys.stderr if arguments.json else sys.stdout, flush=True)
            if arguments.results and one.name not in done:
                append_line(arguments.results, asdict(row))
    asked = sum(row.asked for row in rows)
    swallowed = [row.name for row in rows if row.swallowed]
    if arguments.json:
        print(json.dumps({"rows": [asdict(r) for r in rows], "asked": asked, "swallowed": swallowed}, indent=1))
    else:
        print(f"{asked} invented failures beside {len(builtin())} causes: {len(swallowed)} swallowed")
    return 1 if swallowed or (arguments.only == "*" and asked < ENOUGH) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="GLOB", default="*", help="failures, as in 'openvino:*'")
    parser.add_argument("--results", type=Path, metavar="FILE", help="rows as JSON lines, to go on from")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout, progress on stderr")
    return parser.parse_args()


def _kept(path: Path | None) -> list[Row]:
    return [Row(**{**line, "causes": tuple(line["causes"])}) for line in (read_lines(path) if path else [])]


def run(one: Invented, checker: Checker, library: Library) -> Row:
    """Check an invented failure as a user would, in a store of its own."""
    started = time.monotonic()
    load_plugins([plants_plugin()])
    options = CheckOptions(plugins=(plants_plugin(),))
    honest, target = Target.parse(one.compiler), Target.parse(one.target)
    try:
        bundle = SourceBundle("invented.py", "program", {"invented.py": one.text})
        opened = open_source(bundle, checker.pool, options, name=one.name)
        with tempfile.TemporaryDirectory() as folder, Store.create(Path(folder)) as store:
            result = check_program(
                checker, store, opened, targets=[honest, target], options=options, keep_reduced=True, library=library
            )
    except DriftlineError as error:
        return Row(one.name, "not asked", "", (), time.monotonic() - started, str(error))
    rows = {row.target: row for row in result.results}
    if honest not in rows or target not in rows:
        return Row(one.name, "not asked", "", (), time.monotonic() - started, result.outcome.skipped[0].reason)
    row = rows[target]
    if rows[honest].verdict.judgement is not Judgement.PASS:
        told = f"without the plant: {rows[honest].verdict.judgement}: {rows[honest].verdict.reason}"
        return Row(one.name, "not counted", "", (), time.monotonic() - started, told)
    bug = result.bugs.get(target)
    causes = tuple(cause.id for cause in causes_of(bug, library)) if bug else ()
    status = str(bug.status) if bug else ""
    seconds = time.monotonic() - started
    return Row(one.name, str(row.verdict.judgement), status, causes, seconds, row.internal_error or row.verdict.reason)


def _line(row: Row) -> str:
    state = "SWALLOWED" if row.swallowed else "new" if row.asked else row.verdict
    told = ", ".join(row.causes) if row.causes else row.reason[:110]
    return f"{row.name:<72} {state:<13} {row.seconds:5.1f} s  {told}"


if __name__ == "__main__":
    sys.exit(main())
