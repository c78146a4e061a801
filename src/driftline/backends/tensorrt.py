"""NVIDIA TensorRT: ONNX to an engine for one GPU.

Written against TensorRT 10 and not exercised by our own tests, which have neither the package nor a GPU. Traps: TF32 is
on by default and must be switched off to compare in float32; float64 is not taken at all; the package on PyPI is a stub
that fetches the real one from NVIDIA's index while it installs. torch supplies the GPU memory.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

import numpy as np

from driftline.backends.base import Availability, Backend, Compiled, Option, Options, Unsupported, option
from driftline.core.tensors import Arrays
from driftline.core.tracker import Tracker
from driftline.programs.opened import OpenedProgram

_REASON = (
    "TensorRT needs an NVIDIA GPU and NVIDIA's own package index: the package 'tensorrt' on PyPI is a stub that fetches"
    " the real one from there"
)
_NO_TORCH = "TensorRT runs here with GPU memory from torch, and torch with CUDA is not installed"
# The parser's error codes that mean "not supported"; any other is a failure.
_UNSUPPORTED_CODES = ("UNSUPPORTED_GRAPH", "UNSUPPORTED_NODE", "UNSUPPORTED_NODE_ATTR", "UNSUPPORTED_NODE_INPUT",
                      "UNSUPPORTED_NODE_DATATYPE", "UNSUPPORTED_NODE_DYNAMIC", "UNSUPPORTED_NODE_SHAPE")  # fmt: skip


class TensorRTError(Exception):
    """Raised when the parser or the builder fails; the message is what it logged."""


class TensorRT(Backend):
    name = "tensorrt"
    accepts = ("onnx",)
    module = "tensorrt"
    distribution = "tensorrt"
    tracker = Tracker("https://github.com/NVIDIA/TensorRT/issues")
    rungs = ("opt=0",)
    install = "pip install tensorrt, with NVIDIA's package index as an extra index (see NVIDIA's installation guide)"
    devices = ("cuda",)
    options = {"opt": Option("builder optimisation level", ("0", "1", "2", "3", "4", "5"), "3")}

    def installed(self) -> Availability:
        present = super().installed()
        if not present.available:
            return replace(present, reason=_REASON)
        if importlib.util.find_spec("torch") is None:
            return Availability(False, present.version, reason=_NO_TORCH)
        return present

    def warm(self) -> None:
        present = self.installed()
        if not present.available:
            raise ModuleNotFoundError(present.reason)
        super().warm()

    def find_devices(self) -> tuple[str, ...]:
        import torch

        return ("cuda",) if torch.cuda.is_available() else ()

    def fixes_sizes(self, program: OpenedProgram) -> bool:
        return True

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import tensorrt as trt
        import torch

        if not torch.cuda.is_available():
            raise Unsupported("no GPU is visible to this worker; name the target tensorrt:device=cuda")
        logger = _Collector.make(trt)
        builder = trt.Builder(logger)
        network = builder.create_network(0)
        parser = trt.OnnxParser(network, logger)
        source = program.source
        parsed = parser.parse_from_file(source) if isinstance(source, str) else parser.parse(source)
        if not parsed:
            raise _parser_error(parser)
        config = builder.create_builder_config()
        config.builder_optimization_level = int(option(options, self, "opt"))
        config.clear_flag(trt.BuilderFlag.TF32)
        profile = builder.create_optimization_profile()
        for index in range(network.num_inputs):
            tensor = network.get_input(index)
            shape = program.example[tensor.name].shape
            profile.set_shape(tensor.name, shape, shape, shape)
        config.add_optimization_profile(profile)
        plan = builder.build_serialized_network(network, config)
        if plan is None:
            raise TensorRTError("\n".join(logger.errors) or "the builder returned nothing")
        engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
        context = engine.create_execution_context()
        inputs = [network.get_input(index).name for index in range(network.num_inputs)]
        outputs = [network.get_output(index).name for index in range(network.num_outputs)]

        def run(arrays: Arrays) -> Arrays:
            held = {name: _to_gpu(arrays[name]) for name in inputs}
            for name, tensor in held.items():
                context.set_input_shape(name, tuple(tensor.shape))
            for name in outputs:
                shape = tuple(context.get_tensor_shape(name))
                if min(shape, default=0) < 0:
                    raise Unsupported(f"the shape of {name!r} depends on the data")
                held[name] = torch.empty(shape, dtype=_torch_dtype(engine.get_tensor_dtype(name)), device="cuda")
            for name, tensor in held.items():
                context.set_tensor_address(name, tensor.data_ptr())
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())  # the copies above
            if not context.execute_async_v3(stream.cuda_stream):
                raise TensorRTError("\n".join(logger.errors) or "execution failed")
            stream.synchronize()
            return {name: _from_gpu(held[name]) for name in outputs}

        return run

    def is_rejection(self, error: BaseException) -> bool:
        text = str(error)
        return (
            super().is_rejection(error) or "not supported" in text or any(code in text for code in _UNSUPPORTED_CODES)
        )


class _Collector:
    """Collects TensorRT's log messages, the only place with reasons. The logger's base class exists only in workers."""

    @staticmethod
    def make(trt: Any) -> Any:
        class Logger(trt.ILogger):  # type: ignore[misc]
            def __init__(self) -> None:
                trt.ILogger.__init__(self)
                self.errors: list[str] = []

            def log(self, severity: Any, message: str) -> None:
                if severity <= trt.ILogger.Severity.ERROR:
                    self.errors.append(message)

        return Logger()


def _parser_error(parser: Any) -> TensorRTError:
    errors = [parser.get_error(index) for index in range(parser.num_errors)]
    return TensorRTError("\n".join(f"{error.code().name}: {error.desc()}" for error in errors))


def _to_gpu(array: np.ndarray[Any, Any]) -> Any:
    from driftline.programs.torch_tensors import tensor_from_array

    return tensor_from_array(array).cuda().contiguous()


def _from_gpu(tensor: Any) -> np.ndarray[Any, Any]:
    from driftline.programs.torch_tensors import array_from_tensor

    return array_from_tensor(tensor.cpu())


def _torch_dtype(dtype: Any) -> Any:
    import torch

    names = {"FLOAT": "float32", "HALF": "float16", "BF16": "bfloat16", "FP8": "float8_e4m3fn"}
    return getattr(torch, names.get(dtype.name, dtype.name.lower()))
