"""A program that a property test drew: its text or model, with inputs that fit it. Needs no Hypothesis."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from driftline.checking.open import LoadedProgram, open_program
from driftline.core.case import CheckOptions
from driftline.core.tensors import Arrays
from driftline.execute.pool import Pool
from driftline.generate.graph import Graph

_NAMES = {"torch": "program.py", "jax": "program.py", "onnx": "program.onnx"}


@dataclass(frozen=True)
class DrawnProgram:
    """A program that `programs()` drew. `driftline.check` and the fixture `driftline_check` accept it directly."""

    form: str  # torch, onnx, jax
    content: str | bytes = field(repr=False)  # Python text with a factory `program`, or a serialised ONNX model
    inputs: Arrays = field(repr=False)  # by the names of its parameters
    graph: Graph = field(repr=False)
    grad: bool = False  # its gradients are to be compared, too

    @property
    def operators(self) -> tuple[str, ...]:
        return self.graph.operators

    def __repr__(self) -> str:
        """Return the text that Hypothesis prints for an example."""
        given = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.inputs.items())
        return f"<{self.form} program: {' > '.join(self.operators)} ({given})>"

    def load(self) -> tuple[Any, Any]:
        """Return the live program and its arguments, for your own compiler: a module with a tuple of tensors, a jnp
        function with a tuple of arrays, or an ONNX model with arrays by name. Imports the framework."""
        if isinstance(self.content, bytes):
            import onnx

            return onnx.load_model_from_string(self.content), dict(self.inputs)
        names: dict[str, Any] = {}
        exec(compile(self.content, "<drawn program>", "exec"), names)
        program, _ = names["program"]()
        if self.form == "torch":
            from driftline.programs.torch_tensors import tensor_from_array

            return program, tuple(tensor_from_array(array) for array in self.inputs.values())
        return program, tuple(self.inputs.values())

    def open(self, pool: Pool, options: CheckOptions) -> LoadedProgram:
        """Open it like a program named on the command line, with the drawn inputs as the example."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / _NAMES[self.form]
            if isinstance(self.content, bytes):
                path.write_bytes(self.content)
                opened = open_program(str(path), pool, options)
            else:
                path.write_text(self.content)
                opened = open_program(f"{path}:program", pool, options)
        return replace(opened, example=dict(self.inputs))
