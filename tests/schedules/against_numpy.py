"""Run by `test_functions.py` in a process of its own, since it imports TVM: every function against numpy."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from driftline.schedules.functions import FUNCTIONS
from driftline.schedules.performing import ScheduleBench
from driftline.schedules.right import computed
from driftline.schedules.trace import Trace


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for function in FUNCTIONS:
            sizes = dict(zip(function.sizes, (3, 5, 4, 2), strict=False))
            bench = ScheduleBench(Trace(function.name, sizes), Path(folder))
            found = bench.expected(bench.inputs)
            wanted = computed(function, bench.inputs)
            assert wanted and wanted.keys() == found.keys()
            for name, right in wanted.items():
                assert right.dtype == found[name].dtype, function.name
                np.testing.assert_allclose(found[name], right, rtol=1e-6 if function.ulps else 0, err_msg=function.name)
            print(function.name)


if __name__ == "__main__":
    main()
