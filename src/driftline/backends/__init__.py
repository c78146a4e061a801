"""Every compiler that Driftline can drive, by name, one file each. A backend is imported when it is first used."""

from __future__ import annotations

from functools import partial
from importlib.metadata import entry_points

from driftline.backends.base import Backend
from driftline.core.registry import Registry
from driftline.core.target import Target

_BUILTIN = {
    "eager": "driftline.backends.eager:Eager",
    "aot_eager": "driftline.backends.aot_eager:AotEager",
    "aot_eager_decomp": "driftline.backends.aot_eager:AotEagerDecomp",
    "inductor": "driftline.backends.inductor:Inductor",
    "aotinductor": "driftline.backends.aotinductor:AotInductor",
    "torchscript": "driftline.backends.torchscript:TorchScript",
    "onnx-reference": "driftline.backends.onnx_reference:OnnxReference",
    "onnxruntime": "driftline.backends.onnxruntime:OnnxRuntime",
    "openvino": "driftline.backends.openvino:OpenVino",
    "onnxscript": "driftline.backends.onnxscript:OnnxScript",
    "tvm": "driftline.backends.tvm:Tvm",
    "iree": "driftline.backends.iree:Iree",
    "xla": "driftline.backends.xla:Xla",
    "tensorflow": "driftline.backends.tensorflow:TensorFlow",
    "tensorflow-xla": "driftline.backends.tensorflow:TensorFlowXla",
    "tflite": "driftline.backends.tflite:TfLite",
    "executorch": "driftline.backends.executorch:ExecuTorch",
    "tensorrt": "driftline.backends.tensorrt:TensorRT",
    "mock": "driftline.backends.mock:Mock",
}

BACKENDS: Registry[Backend] = Registry("backend", _BUILTIN, "driftline.backends")


def _offer_dynamo_backends() -> None:
    """Register every backend that vendors ship for `torch.compile` as `dynamo:<name>`."""
    for point in entry_points(group="torch_dynamo_backends"):
        BACKENDS.register(f"dynamo:{point.name}", partial(_dynamo_backend, point.name))


def _dynamo_backend(name: str) -> Backend:
    from driftline.backends.dynamo import DynamoBackend

    return DynamoBackend(name)


def register_backend(cls: type[Backend]) -> type[Backend]:
    """Class decorator for plugins: register a backend under its name."""
    BACKENDS.register(cls.name, cls)
    return cls


def resolve(target: Target) -> Backend:
    """Return the backend of a target, after validating the target's options."""
    backend = BACKENDS.get(target.backend)
    backend.validate(dict(target.options), str(target))
    return backend


def warm(name: str) -> None:
    """Import what the backend needs. Called in a nursery (the process that workers are forked from), before forking."""
    BACKENDS.get(name).warm()


def wake_device(name: str) -> None:
    """Start the backend's GPU driver. Called in a GPU process before it drops its privileges, which the driver needs at
    its start."""
    BACKENDS.get(name).wake_device()


def device_answers(name: str) -> bool:
    """True if the GPU still works for this process. Called in a GPU process after each task."""
    return BACKENDS.get(name).device_answers()


_offer_dynamo_backends()
