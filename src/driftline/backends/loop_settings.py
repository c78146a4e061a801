"""Settings that change how a compiler generates loops, never the results: fusion, tiling, unrolling, buffers.

They correspond to TVM's schedule primitives: with any of them, alone or together, a program must compute the same as
without. `hunt --settings loops` draws several at a time.
"""

from __future__ import annotations

from driftline.backends.base import each_setting

INDUCTOR = each_setting(
    "max_fusion_size=1",
    "max_fusion_size=2",
    "realize_reads_threshold=1",
    "realize_reads_threshold=64",
    "realize_opcount_threshold=1",
    "aggressive_fusion=true",
    "epilogue_fusion=false",
    "permute_fusion=true",
    "loop_ordering_after_fusion=true",
    "loop_ordering_after_fusion=false",
    "loop_index_inversion_in_fusion=false",
    "pick_loop_orders=false",
    "split_reductions=false",
    "unroll_reductions_threshold=1",
    "unroll_reductions_threshold=64",
    "force_pointwise_cat=true",
    "max_pointwise_cat_inputs=1",
    "expand_dimension_for_pointwise_nodes=true",
    "constant_and_index_propagation=false",
    "inplace_buffers=false",
    "allow_buffer_reuse=false",
    "memory_planning=true",
    "reorder_for_peak_memory=false",
    "comprehensive_padding=false",
    "cpp.min_chunk_size=1",
    "cpp.max_horizontal_fusion_size=0",
    "cpp.enable_tiling_heuristics=false",
    "cpp.enable_loop_tail_vec=false",
    "cpp.force_inline_kernel=true",
    "cpp.use_two_step_variance_threshold=1",
)
IREE = each_setting(
    "iree-opt-data-tiling=true",
    "iree-opt-aggressively-propagate-transposes=true",
    "iree-opt-generalize-matmul=true",
    "iree-opt-outer-dim-concat=true",
    "iree-dispatch-creation-data-tiling=true",
    "iree-dispatch-creation-enable-aggressive-fusion=true",
    "iree-dispatch-creation-enable-aggressive-reshape-movement=true",
    "iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops=true",
    "iree-dispatch-creation-enable-split-reduction=true",
    "iree-dispatch-creation-split-reduction-low-parallelism=true",
    "iree-dispatch-creation-fuse-multi-use=false",
    "iree-dispatch-creation-opt-level=O0",
    "iree-dispatch-creation-opt-level=O3",
    "iree-llvmcpu-disable-distribution=true",
    "iree-llvmcpu-enable-inner-tiled=true",
    "iree-llvmcpu-enable-ukernels=all",
    "iree-llvmcpu-enable-ukernels=none",
    "iree-llvmcpu-loop-interleaving=true",
    "iree-llvmcpu-loop-unrolling=true",
    "iree-llvmcpu-loop-vectorization=true",
    "iree-llvmcpu-slp-vectorization=true",
    "iree-llvmcpu-target-vector-width-in-bytes=8",
    "iree-llvmcpu-target-vector-width-in-bytes=64",
    "iree-llvmcpu-use-decompose-softmax-fuse=false",
)
XLA = each_setting(
    "xla_cpu_copy_insertion_use_region_analysis=true",
    "xla_cpu_enable_concurrency_optimized_scheduler=true",
    "xla_cpu_multi_thread_eigen=false",
    "xla_cpu_parallel_codegen_split_count=1",
    "xla_cpu_prefer_vector_width=128",
    "xla_cpu_prefer_vector_width=512",
    "xla_cpu_use_fusion_emitters=false",
    "xla_llvm_disable_expensive_passes=true",
)
