"""Which of TorchInductor's rules there are on which processor."""

from __future__ import annotations

import platform

import pytest

# The torch of Linux on Arm computes through the Arm Compute Library, which has no fused layers. There TorchInductor
# registers neither fusions for oneDNN nor their lowerings: see `_is_mkldnn_acl_supported` in its fx_passes.
ARM = platform.machine() == "aarch64"
RULES, OPTIMISATIONS = (311, 206) if ARM else (533, 224)

of_fusions = pytest.mark.skipif(
    ARM, reason="with the Arm Compute Library TorchInductor registers no fusions for oneDNN, and no lowerings of them"
)
of_single_precision = pytest.mark.skipif(
    not ARM, reason="MKL packs linear layers of float32; oneDNN needs a processor that computes in bfloat16"
)
