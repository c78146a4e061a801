"""Compilers with bugs that are hard to reduce: a plugin file for tests of the reducer."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from driftline.backends import register_backend
from driftline.backends.base import Compiled, Option, Options, Unsupported
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram


class _Odd(OnnxRuntime):
    """ONNX Runtime without optimisation, wrong whenever `strikes` says so."""

    family = "onnxruntime"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        raise NotImplementedError

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import onnx

        honest = super().compile(program, {"opt": "off"})
        model = onnx.load_model_from_string(program.data)

        def run(arrays: Arrays) -> Arrays:
            outputs = {name: np.array(array) for name, array in honest(arrays).items()}
            if self.strikes(model, arrays, outputs):
                for name, array in outputs.items():
                    outputs[name] = array + np.array(3, array.dtype)
            return outputs

        return run


def _kinds(model: Any) -> list[str]:
    return [node.op_type for node in model.graph.node]


@register_backend
class FarApart(_Odd):
    """Needs two operators, however far apart."""

    name = "odd-far-apart"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        return {"Erf", "Softplus"} <= set(_kinds(model))


@register_backend
class FarApartWithFlow(_Odd):
    """Needs two operators of which one feeds the other, through whatever lies between."""

    name = "odd-flow"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        reached: set[str] = set()
        for node in model.graph.node:
            if node.op_type == "Erf" or reached & set(node.input):
                if node.op_type == "Softplus":
                    return True
                reached |= set(node.output)
        return False


@register_backend
class Needs(_Odd):
    """Wrong whenever all operators of some kinds are there, whatever they are given."""

    name = "odd-needs"
    options = {**OnnxRuntime.options, "kinds": Option("operators, joined with +", default="Erf")}

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        self._needed = set(options["kinds"].split("+"))
        return super().compile(program, {})

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        return self._needed <= set(_kinds(model))


@register_backend
class SmallEpsilon(_Odd):
    """Wrong where a norm of different numbers has an epsilon of its own that is small."""

    name = "odd-small-epsilon"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        epsilons = [a.f for node in model.graph.node for a in node.attribute if a.name == "epsilon"]
        return any(epsilon < 1e-3 for epsilon in epsilons) and any(array.std() > 0 for array in arrays.values())


@register_backend
class Quotient(_Odd):
    """Wrong on the Tanh of a quotient that is not 0."""

    name = "odd-quotient"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        apart = all(len(set(node.input)) == 2 for node in model.graph.node if node.op_type == "Div")
        moved = all(bool(array.all()) for array in outputs.values())
        return apart and moved and {"Div", "Tanh"} <= set(_kinds(model))


@register_backend
class NanBothWays(_Odd):
    """Loses NaN, and makes NaN of large numbers."""

    name = "odd-nan-both-ways"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        for array in outputs.values():
            lost, made = np.isnan(array), np.abs(array) > 100
            array[lost], array[made] = 0, np.nan
        return False


@register_backend
class TwoFaced(_Odd):
    """Wrong on Erf with Softplus; Softplus alone is refused with an error."""

    name = "odd-two-faced"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        present = {"Erf", "Softplus"} & set(_kinds(model))
        if present == {"Softplus"}:
            raise RuntimeError("the planted compiler has lost its Erf")
        return len(present) == 2


@register_backend
class AboveSize(_Odd):
    """Needs a dimension of more than 37."""

    name = "odd-above-size"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        return "Erf" in _kinds(model) and any(size > 37 for array in arrays.values() for size in array.shape)


@register_backend
class Observed(_Odd):
    """Gone as soon as any intermediate is an output."""

    name = "odd-observed"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        read = {name for node in model.graph.node for name in node.input}
        watched = any(output.name in read for output in model.graph.output) or len(model.graph.output) > 1
        return not watched and {"Erf", "Softplus"} <= set(_kinds(model))


@register_backend
class SecondSample(_Odd):
    """Wrong on inputs that hold a number above 5 only."""

    name = "odd-second-sample"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        return any(bool((array > 5).any()) for array in arrays.values())


@register_backend
class Touchy(_Odd):
    """Wrong on numbers above 5, and raises on those above 100 unless there are many."""

    name = "odd-touchy"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        (array,) = arrays.values()
        if array.size < 5 and (array > 100).any():
            raise RuntimeError("the planted compiler cannot stand large numbers")
        return bool((array > 5).any())


@register_backend
class Choosy(_Odd):
    """Wrong on numbers above 5, and refuses those above 100 unless there are many."""

    name = "odd-choosy"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        (array,) = arrays.values()
        if array.size < 5 and (array > 100).any():
            raise Unsupported("the planted compiler does not take large numbers")
        return bool((array > 5).any())


@register_backend
class NoScalars(_Odd):
    """Wrong on numbers above 5, and raises on every scalar."""

    name = "odd-no-scalars"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        if any(not array.ndim for array in arrays.values()):
            raise RuntimeError("the planted compiler wants an axis")
        return any(bool((array > 5).any()) for array in arrays.values())


@register_backend
class Stale(_Odd):
    """Wrong on numbers above 5, and on whatever comes after another input."""

    name = "odd-stale"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        self._runs = 0
        return super().compile(program, options)

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        self._runs += 1
        return self._runs > 1 or any(bool((array > 5).any()) for array in arrays.values())


@register_backend
class Settling(_Odd):
    """Wrong on numbers other than 0, and only on the first input: it passes what it would fail alone."""

    name = "odd-settling"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        self._runs = 0
        return super().compile(program, options)

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        self._runs += 1
        return self._runs == 1 and any(bool((array != 0).any()) for array in arrays.values())


@register_backend
class FromBehind(_Odd):
    """Wrong on indices that count from the end."""

    name = "odd-from-behind"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        return "Gather" in _kinds(model) and any(bool((array < 0).any()) for array in arrays.values())


@register_backend
class Optional(_Odd):
    """Wrong on Clip without a lower bound."""

    name = "odd-optional"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        return any(node.op_type == "Clip" and len(node.input) > 2 and not node.input[1] for node in model.graph.node)


@register_backend
class Hanging(_Odd):
    """Never comes back from an Erf."""

    name = "odd-hanging"

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        while "Erf" in _kinds(model):
            pass
        return False


@register_backend
class Flaky(_Odd):
    """Dies of an Erf in one run of five, counted over all processes."""

    name = "odd-flaky"
    options = {
        **OnnxRuntime.options,
        "counter": Option("a name for the count, so that tests do not disturb each other", default="count"),
    }

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        # A worker has a folder of its own in the one that all workers of a pool share.
        self._counter = Path(tempfile.gettempdir()).parent / options.get("counter", "count")
        return super().compile(program, {})

    def strikes(self, model: Any, arrays: Arrays, outputs: Arrays) -> bool:
        if "Erf" not in _kinds(model):
            return False
        with open(self._counter, "ab") as file:
            file.write(b".")
            count = file.tell()
        if count % 5 == 0:
            os.abort()
        return False
