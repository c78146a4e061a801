"""What is installed beside a release; nothing is downloaded."""

from __future__ import annotations

import pytest

from driftline.backends.packages import installing


@pytest.mark.parametrize(
    ("package", "version", "expected"),
    [
        ("apache-tvm", "0.25.0.post1", ["onnx", "apache-tvm-ffi==0.1.12"]),
        ("apache-tvm", "0.27.0", ["onnx"]),
        ("iree-base-compiler", "3.13.0", ["iree-base-runtime==3.13.0", "onnx"]),
        ("litert-torch", "0.10.0", ["torch==2.13.0"]),
        ("onnxruntime", "1.15.1", []),
    ],
)
def test_a_release_may_need_more_than_its_successors(package: str, version: str, expected: list[str]) -> None:
    assert installing(package).requirements(version) == expected


def test_the_module_that_shows_whether_a_release_works() -> None:
    assert installing("apache-tvm").module == "tvm"
    assert installing("tensorflow-cpu").module == "tensorflow"
    assert installing("onnxruntime-gpu").module == "onnxruntime"
    assert installing("openvino").module == "", "the name of the package"
