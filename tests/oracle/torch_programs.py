"""A torch function with its shadow at hand, in this process: what the tests of the rule work on."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from driftline.backends._torch import as_arrays, flatten_tensors
from driftline.core.tensors import Arrays, save_tensors
from driftline.oracle.arithmetic import IEEE, Arithmetic
from driftline.oracle.rule import JudgedOutputs, ShadowAnswer, judge_outputs
from driftline.oracle.shadow.task import play_shadow
from driftline.oracle.shadow.torch.shadow import TorchShadow, record


class Program:
    """`Program(function, x, y).judge(outputs)`."""

    def __init__(self, function: Callable[..., Any], *inputs: Any, arithmetic: Arithmetic = IEEE) -> None:
        self._function, self._inputs, self._arithmetic = function, inputs, arithmetic
        with torch.no_grad():
            self.native = as_arrays(self._run())
            self.tape = record(self._run)

    def _run(self) -> dict[str, Any]:
        return flatten_tensors(self._function(*[i.clone() if isinstance(i, torch.Tensor) else i for i in self._inputs]))

    def shadow(self, runs: int, outputs: Arrays | None) -> ShadowAnswer:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "outputs"
            if outputs is not None:
                save_tensors(path, outputs)
            given = path if outputs is not None else None
            return play_shadow(TorchShadow(self.tape, self._arithmetic), runs, given, Path(name)).read()

    @cached_property
    def exact(self) -> Arrays:
        return self.shadow(1, None).reference

    def judge(self, outputs: Arrays) -> JudgedOutputs:
        return judge_outputs(outputs, self.native, self.exact, self.shadow, self._arithmetic)

    def copy(self) -> Arrays:
        """The native outputs; write to the copy to plant a bug."""
        return {key: value.copy() for key, value in self.native.items()}
