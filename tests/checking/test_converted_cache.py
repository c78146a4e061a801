"""Converted programs that are kept between runs are kept by everything that they depend on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from driftline.checking.convert import _key
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.tensors import TensorSpec
from driftline.programs.convert import CONVERTERS


def case_with(*plugins: Path) -> Case:
    program = Program("source", "torch", "00", Path("m"), "m.py:f", (TensorSpec("x", "float32", (3,)),))
    options = replace(CheckOptions(), plugins=tuple(str(plugin) for plugin in plugins))
    return Case(program, (Inputs({"x": np.ones(3, np.float32)}, "example"),), (Target("onnxruntime"),), options)


def test_a_conversion_with_a_plugin_is_kept_by_the_text_of_the_plugin(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    keys = {_key(case_with(), CONVERTERS[0])}
    for text in ("a = 1\n", "a = 2\n"):
        plugin.write_text(text)
        keys.add(_key(case_with(plugin), CONVERTERS[0]))
    assert len(keys) == 3
    assert _key(case_with(plugin), CONVERTERS[0]) in keys
