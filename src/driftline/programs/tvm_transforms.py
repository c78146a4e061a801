"""Transforms of TVM that a target or a script may name."""

from __future__ import annotations

# Transforms of `tvm.relax.transform` that rewrite a graph and need no arguments; with what must run around them.
TRANSFORMS: dict[str, tuple[str, ...]] = {
    **{
        name: (name,)
        for name in """
        AdjustMatmulOrder CanonicalizeBindings CombineParallelMatmul ConvertToDataflow DataflowUseInplaceCalls
        DeadCodeElimination DecomposeOpsForInference EliminateCommonSubexpr ExpandMatmulOfSum FastMathTransform
        FoldBatchnormToConv2D FuseTransposeMatmul InlinePrivateFunctions LambdaLift Normalize OptimizeLayoutTransform
        RemoveRedundantReshape RemoveUnusedOutputs ReorderPermuteDimsAfterConcat ReorderTakeAfterMatmul
        ToMixedPrecision TopologicalSort
        """.split()
    },
    "FoldConstant": ("LegalizeOps", "FoldConstant"),
    "FuseOps": ("LegalizeOps", "AnnotateTIROpPattern", "FuseOps", "FuseTIR"),
}
