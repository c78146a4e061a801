"""Maintainers read their own option names, not ours."""

from __future__ import annotations

import pytest

from driftline.core.target import Target
from driftline.report.export.settings import in_their_words


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("onnxruntime:disable=FuseReluClip", "`disabled_optimizers=['FuseReluClip']`"),
        ("onnxruntime@1.15.1:opt=off", "`graph_optimization_level = ORT_DISABLE_ALL`"),
        ("inductor:pattern_matcher=false", "`torch._inductor.config.pattern_matcher = False`"),
        ("inductor:forbid=79389ffa", "Driftline's `inductor:forbid=79389ffa`"),
        ("xla:disable=algsimp+fusion", "`XLA_FLAGS=--xla_disable_hlo_passes=algsimp,fusion`"),
        (
            "xla:opt=0:fusion_emitters=false",
            "`XLA_FLAGS=--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false`",
        ),
        ("xla:jit=off", "`jax.disable_jit()`"),
        ("iree:flags=iree-opt-const-eval=false", "`--iree-opt-const-eval=false`"),
        ("tvm:opt=0", "`tvm.transform.PassContext(opt_level=0)`"),
        ("openvino:snippets=false", "Driftline's `openvino:snippets=false`"),
    ],
)
def test_a_target_in_the_compilers_own_words(target: str, said: str) -> None:
    assert in_their_words(Target.parse(target)) == said
