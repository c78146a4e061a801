"""What is installed beside a release; nothing is downloaded."""

from __future__ import annotations

from driftline.execute.environments import _companions


def test_a_release_may_need_more_than_its_successors() -> None:
    assert _companions("apache-tvm", "0.25.0.post1") == ["onnx", "apache-tvm-ffi==0.1.12"]
    assert _companions("apache-tvm", "0.27.0") == ["onnx"]
    assert _companions("iree-base-compiler", "3.13.0") == ["iree-base-runtime==3.13.0", "onnx"]
    assert _companions("onnxruntime", "1.15.1") == []
