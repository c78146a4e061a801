"""Programs as Hypothesis strategies, so that compiler teams can write property tests over them.

    from hypothesis import given
    from driftline.strategies import compiler_settings, programs

    @compiler_settings(max_examples=50)
    @given(program=programs("onnx", operators=["relu", "conv2d", "softmax"], dtypes=["float32"]))
    def test_my_compiler(program):
        model, inputs = program.load()
        ...

Every choice of the generator is a draw of Hypothesis: what fails is made smaller operator by operator, size by size.
"""

from __future__ import annotations

from driftline.strategies.drawn import DrawnProgram
from driftline.strategies.strategy import compiler_settings, programs

__all__ = ["DrawnProgram", "compiler_settings", "programs"]
