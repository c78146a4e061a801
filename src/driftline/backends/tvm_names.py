"""The names of TVM's passes: those of the default pipeline, and the transforms that users call."""

from __future__ import annotations

# The passes of the default pipeline of 0.27, Relax first, then TensorIR, as an instrument sees them.
PIPELINE = tuple(
    """
    DispatchSampling DispatchSortScan LegalizeOps RewriteDataflowReshape ToNonDataflow RemovePurityChecking
    CallTIRRewrite StaticPlanBlockMemory RewriteCUDAGraph LowerAllocTensor KillAfterLastUse LowerRuntimeBuiltin
    ComputePrimValue VMShapeLower AttachGlobalSymbol
    tirx.BindTarget s_tir.CanonicalizeLoop s_tir.LowerCrossThreadReduction s_tir.LowerInitBlock
    s_tir.PlanAndUpdateBufferAllocationLocation s_tir.ConvertBlocksToOpaque s_tir.LiftThreadBinding
    s_tir.ManifestSharedMemoryLocalStage s_tir.CompactBufferAllocation s_tir.LowerAutoCopy s_tir.UnifyThreadBinding
    s_tir.LowerMatchBuffer s_tir.StmtSimplify s_tir.InjectPermutedLayout s_tir.AnnotateIrregularLoop
    s_tir.InjectSoftwarePipeline s_tir.TransformMmaBufferLayout s_tir.LowerOpaqueBlock tirx.FlattenBuffer
    tirx.BF16ComputeLegalize tirx.NarrowDataType s_tir.LoopPartition tirx.VectorizeLoop s_tir.InjectVirtualThread
    s_tir.InjectDoubleBuffer tirx.StorageRewrite s_tir.HoistIfThenElse tirx.UnrollLoop s_tir.RenormalizeSplitPattern
    tirx.StmtSimplify tirx.RemoveNoOp s_tir.RewriteUnsafeSelect tirx.CommonSubexprElim tirx.FP8ComputeLegalize
    s_tir.VerifyVTCMLimit s_tir.LowerVtcmAlloc tirx.VerifyMemory tirx.AnnotateEntryFunc s_tir.ThreadSync
    s_tir.InferFragment s_tir.LowerThreadAllreduce s_tir.MergeSharedMemoryAllocations tirx.SplitHostDevice
    tirx.MakePackedAPI tirx.FP8StorageLegalize tirx.BF16StorageLegalize tirx.LowerTVMBuiltin tirx.LowerIntrin
    """.split()
)
# Passes without which nothing compiles: later passes need their lowering.
REQUIRED = frozenset(
    """
    LegalizeOps CallTIRRewrite LowerAllocTensor LowerRuntimeBuiltin AttachGlobalSymbol tirx.BindTarget
    s_tir.LowerInitBlock s_tir.ConvertBlocksToOpaque s_tir.LowerOpaqueBlock tirx.FlattenBuffer tirx.MakePackedAPI
    tirx.LowerIntrin
    """.split()
)

# Transforms of `tvm.relax.transform` that rewrite a graph and need no arguments, with the passes they need around them.
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
