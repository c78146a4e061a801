"""Files of a worker that are cheap to write and dear to read: holes, lines without number, values without number."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from driftline.core import handover
from driftline.core.errors import DriftlineError
from driftline.core.files import copy_file
from driftline.core.program import file_digest
from driftline.core.wire import encode
from driftline.execute.requests import ResultLine
from hostile.attack import Attack, both_ways, replacing
from hostile.test_hostile_handover import run_in

HANDOVER = "driftline.core.handover"
LINE = json.dumps(encode(ResultLine, ResultLine(1, finished="0")))


def _records(line: str, count: int) -> Callable[[Path], str]:
    """Reads many results of a worker, and measures the memory that the parent takes for all of them."""

    def play(place: Path) -> str:
        with run_in(place) as workspace, pytest.MonkeyPatch.context() as small:
            small.setattr(f"{HANDOVER}.MOST_LINES", handover.MOST_LINES >> 8)
            small.setattr(f"{HANDOVER}.MOST_VALUES", handover.MOST_VALUES >> 8)
            path = workspace.job_folder() / "results"
            path.write_text(f"{line}\n" * count)
            tracemalloc.start()
            try:
                held = list(handover.records_of(path, ResultLine))
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        return f"{len(held):,} results take {peak >> 20} MiB" if peak > 4 << 20 else ""

    return play


def _all_lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


MANY = json.dumps({"number": 1, "ran": {"outcome": "OK", "stage": "RUN", "outputs": [""] * 100_000}})
HOLE = 3 << 30


def _with_a_hole(use: Callable[[Path, Path], object]) -> Callable[[Path], str]:
    """Uses a program that a worker wrote: a file of gigabytes in which there is nothing."""

    def play(place: Path) -> str:
        with run_in(place) as workspace, pytest.MonkeyPatch.context() as counted:
            read: list[int] = []
            counted.setattr("shutil.copyfileobj", lambda given, made, size: read.append(HOLE))
            counted.setattr("hashlib.file_digest", lambda file, kind: read.append(HOLE) or _Digest())
            path = workspace.job_folder() / "program.onnx"
            path.touch()
            os.truncate(path, HOLE)
            try:
                use(handover.handed_file(path, 1 << 30), place / "copy")
            except DriftlineError as error:
                assert "3,221,225,472 bytes" in str(error)
            return f"{sum(read) >> 30} GiB are read" if read else ""

    return play


class _Digest:
    def hexdigest(self) -> str:
        return ""


def _any_size(path: Path, most: int) -> Path:
    return path


ATTACKS = [
    Attack("results-without-number", _records(LINE, 100_000), replacing(f"{HANDOVER}.lines_of", _all_lines)),
    Attack("values-without-number", _records(MANY, 20), replacing(f"{HANDOVER}.lines_of", _all_lines)),
    Attack("program-with-a-hole-is-copied", _with_a_hole(copy_file), replacing(f"{HANDOVER}.handed_file", _any_size)),
    Attack(
        "program-with-a-hole-is-hashed",
        _with_a_hole(lambda path, copy: file_digest(path)),
        replacing(f"{HANDOVER}.handed_file", _any_size),
    ),
]
test_attack_fails = both_ways(ATTACKS)
