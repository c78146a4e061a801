"""The call of a compiler in a script, through the compiler's public interface. A backend defines it; `report/scripts/`
writes it into the scripts of bug reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ScriptCall:
    """The call of a compiler.

    `call` is a Python expression. For an ONNX model it uses `model`, an `onnx.ModelProto`, and `inputs`, a dict of
    numpy arrays in the order of the model's inputs, and gives the list of output arrays. For torch, TensorFlow and JAX
    the program is called `function`: the expression is the compiled function, as in `torch.compile(function)`, or the
    results, as in `mychip(function, *inputs)` (TensorFlow and JAX: `mychip(function, inputs)`).
    """

    call: str
    text: str = ""  # definitions that the call uses, such as a function of a few lines
    imports: tuple[str, ...] = ()  # import lines
    packages: tuple[str, ...] = ()  # packages to install; the metadata of the script pins their versions
    setup: tuple[str, ...] = ()  # statements that run before the program is made
    # How results of a torch program are returned: in its own structure, as a flat list of tensors, or of numpy arrays.
    tensors: bool = False
    arrays: bool = False
    module: bool = True  # accepts only modules as torch programs: a plain function is wrapped into one
    own_process: bool = False  # the compiler is a separate program, whose crash is an exception here
    text_for: Mapping[str, str] = field(default_factory=dict)  # other texts for ONNX models with values of a dtype
    # For ONNX models, in timing scripts: the text of a function `prepared(model, inputs)` that compiles on one
    # thread and returns a function without arguments, which runs the compiled program.
    prepared: str = ""
    # For ONNX models, in scripts about later calls: the text of a function `compile_once(model, inputs)` that compiles
    # for inputs of these shapes and returns a function of inputs, with the results of `call`.
    once: str = ""

    @property
    def gives_results(self) -> bool:
        """True if the expression gives the results, rather than the compiled function."""
        return re.search(r"\binputs\b", self.call) is not None

    @property
    def function(self) -> str:
        """The name of the function that returns the results: `mychip` of `mychip(function, *inputs)`."""
        return self.call.partition("(")[0]
