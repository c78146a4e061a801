"""The functions that schedules are held against are right themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from driftline.core.errors import DriftlineError
from driftline.schedules.functions import NAMES, function_named, simpler_than


def test_every_function_computes_what_numpy_does() -> None:
    script = Path(__file__).with_name("against_numpy.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == list(NAMES)


def test_an_unknown_function_is_refused_with_a_near_name() -> None:
    with pytest.raises(DriftlineError, match="'softmax'"):
        function_named("sofmax")


def test_simpler_functions_come_first() -> None:
    names = [one.name for one in simpler_than("matmul")]
    assert names[0] == "scale" and "row_sum" in names and "matmul_bias" not in names
