"""IREE: ONNX through MLIR to code for this processor (llvm-cpu), compiled and run in process.

Traps: float64 is demoted to float32 unless an option prevents it. Integers have no sign at its interface. Errors are
described in MLIR diagnostics only; symbols that the linker, a separate process, does not find are only in the log.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from textwrap import indent
from typing import Any

import numpy as np

from driftline.backends.base import Backend, Compiled, Option, Options, Runnable, option
from driftline.backends.knobs import Knob
from driftline.backends.loop_settings import IREE
from driftline.core.errors import DriftlineError
from driftline.core.packages import Installing
from driftline.core.processor import ARM, Processor
from driftline.core.quoting import string
from driftline.core.script_call import ScriptCall
from driftline.core.target import listed
from driftline.core.tensors import Arrays
from driftline.core.text import did_you_mean
from driftline.core.tracker import Tracker
from driftline.programs.opened import OpenedProgram

_FLAGS = (
    "--iree-input-type=onnx",
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-input-demote-f64-to-f32=false",
)
# Flags that switch a part of the compiler off, for ablation.
_PARTS = (
    "iree-opt-const-eval=false",
    "iree-opt-const-expr-hoisting=false",
    "iree-opt-data-tiling=false",
    "iree-opt-strip-assertions=false",
    "iree-global-optimization-opt-level=O0",
    "iree-dispatch-creation-opt-level=O0",
    "iree-dispatch-creation-fuse-multi-use=false",
    "iree-dispatch-creation-enable-aggressive-fusion=false",
    "iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops=false",
    "iree-llvmcpu-mlir-opt-level=O0",
    "iree-llvmcpu-enable-ukernels=none",
    "iree-llvmcpu-loop-interleaving=false",
    "iree-llvmcpu-loop-unrolling=false",
    "iree-llvmcpu-loop-vectorization=false",
    "iree-llvmcpu-slp-vectorization=false",
    "iree-llvmcpu-reassociate-fp-reductions=false",
    "iree-llvmcpu-skip-intermediate-roundings=false",
    "iree-llvmcpu-use-fast-min-max-ops=false",
    "iree-llvmcpu-use-decompose-softmax-fuse=false",
    "iree-llvmcpu-target-cpu=generic",
)
_STDERR = 2
_LOG_READ = 1 << 20  # bytes
_FLAG = re.compile(r"iree-[\w-]+(=[\w.+-]+)?")
_UNDEFINED = re.compile(r"error: undefined symbol: (.+)")
_REJECTIONS = (
    "failed to legalize operation 'torch.",  # an operator, or an element type of it, without a lowering
    "missing onnx opset version attribute",  # a model of other domains only
    "Unsupported",
    "unsupported",
    "not supported",
    "unimplemented",
    "unhandled",
)


_TRACKER = Tracker(
    "https://github.com/iree-org/iree/issues",
    (
        ("What happened?", "{description}"),
        ("Steps to reproduce your issue", "{reproducer}\n\nIt prints:\n\n{output}"),
        ("What component(s) does this issue relate to?", "Compiler"),
        ("Version information", "{versions}"),
    ),
)
_COMPILING = """\
def {name}(model, inputs):
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    model.graph.name = "main"
    info = onnx_importer.ModelInfo(model)
    module = info.create_module(context=Context()).operation
    onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
    args = [{flags}]
    code = iree.compiler.compile_str(module.get_asm(), target_backends=["llvm-cpu"], input_type="onnx", extra_args=args)
    main = iree.runtime.load_vm_flatbuffer(code, driver="local-sync").main
    # Integers have no sign in IREE: the model says what the bits mean.
    dtypes = [onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in model.graph.output]
"""
_RESULTS = """\
result = main(*inputs.values())
parts = result if isinstance(result, (tuple, list)) else [result]
return [np.array(part.to_host()).view(dtype) for part, dtype in zip(parts, dtypes)]
"""
_SCRIPT = f"{_COMPILING}{indent(_RESULTS, '    ')}"
_ONCE = f"{_COMPILING}\n    def run(inputs):\n{indent(_RESULTS, '        ')}\n    return run\n"
_SCRIPT_IMPORTS = (
    "import iree.compiler",
    "import iree.runtime",
    "import numpy as np",
    "import onnx",
    "from iree.compiler.extras import onnx_importer",
    "from iree.compiler.ir import Context",
)

_DiagnosticCallback = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.c_void_p
)


class IreeError(Exception):
    """Raised when the compiler fails; the message is its first diagnostic."""


class Iree(Backend):
    name = "iree"
    start_seconds = 0.4
    arithmetic = "flush-to-zero"  # its CPU code runs with subnormals switched off
    batch = 16
    accepts = ("onnx",)
    module = "iree.compiler"
    distribution = "iree-base-compiler"
    extra = "iree"
    installing = {"iree-base-compiler": Installing("iree.compiler", ("iree-base-runtime=={version}", "onnx"))}
    tracker = _TRACKER
    options = {
        "opt": Option("optimisation level", ("O0", "O1", "O2", "O3"), "O2"),
        "flags": Option("flags of iree-compile without their dashes, joined with '+'"),
        "cpu": Option("the processor to compile for: host (this one), generic, or a name that LLVM knows"),
    }
    settings = r"iree-[\w-]+"
    settings_words = "Flags of iree-compile go by their own names, too, as in iree-opt-const-eval=false."

    def validate(self, options: Options, target: str) -> None:
        super().validate(options, target)
        for flag in listed(options, "flags"):
            if not _FLAG.fullmatch(flag):
                raise DriftlineError(
                    f"Target {target!r}: {flag!r} is no flag; write it without dashes, as in"
                    " 'iree:flags=iree-opt-const-eval=false', and join several with '+'."
                )

    def isa_variants(self, processor: Processor) -> Sequence[Options]:
        names = processor.levels or ("generic",) * (processor.machine == ARM)
        return [{"cpu": name} for name in names]

    def varied_settings(self, processor: Processor) -> list[Options]:
        return [*super().varied_settings(processor), *({"flags": flag} for flag in _PARTS)]

    def loop_settings(self) -> tuple[Options, ...]:
        return IREE

    def check_settings(self, settings: Options) -> None:
        from iree.compiler.api import Session

        session = Session()
        for name, value in settings.items():
            try:
                session.set_flags(f"--{name}={value}")
            except ValueError as error:
                known = [flag.removeprefix("--").partition("=")[0] for flag in session.get_flags()]
                near = did_you_mean(name, known) if name not in known else ""
                told = f"there is no flag {name!r}" if name not in known else f"{name}={value} is not valid"
                raise DriftlineError(f"IREE does not take its settings: {told}.{near}") from error

    def flags(self, options: Options) -> list[str]:
        """Return the flags for the options, without their dashes."""
        flags = [f"iree-opt-level={option(options, self, 'opt')}", *listed(options, "flags")]
        flags += [f"iree-llvmcpu-target-cpu={options['cpu']}"] if "cpu" in options else []
        return [*flags, *(f"{name}={value}" for name, value in self.own_settings(options).items())]

    def knobs(self, options: Options) -> list[Knob]:
        left = [flag for flag in _PARTS if flag not in listed(options, "flags")]
        return [*super().knobs(options), *(Knob("flags", flag, "flag") for flag in left)]

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        if framework != "onnx":
            return ()
        flags = self.flags(options)
        named = {flag.partition("=")[0] for flag in flags}
        usual = ("iree-llvmcpu-target-cpu=host", "iree-input-demote-f64-to-f32=false")
        flags = [*(flag for flag in usual if flag.partition("=")[0] not in named), *flags]
        told = ", ".join(string(f"--{flag}") for flag in flags)
        text, once = _SCRIPT.format(name="compiled", flags=told), _ONCE.format(name="compile_once", flags=told)
        packages = ("iree-base-compiler", "iree-base-runtime")
        return [ScriptCall("compiled(model, inputs)", text, _SCRIPT_IMPORTS, packages, own_process=True, once=once)]

    def settings_text(self, options: Options) -> str:
        return " ".join(f"--{flag}" for flag in self.flags(options)[0 if "opt" in options else 1 :])

    def warm(self) -> None:
        import iree.compiler.api
        import iree.compiler.extras.onnx_importer
        import iree.runtime  # noqa: F401

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import iree.runtime
        import onnx

        model = onnx.shape_inference.infer_shapes(program.model(), data_prop=True)
        constants = {tensor.name for tensor in model.graph.initializer}
        inputs = [value.name for value in model.graph.input if value.name not in constants]
        outputs = {value.name: _dtype(value) for value in model.graph.output}
        model.graph.name = "main"  # any text is a valid graph name, but not a function's
        code = _compile(_import(model), [f"--{flag}" for flag in self.flags(options)])
        config = iree.runtime.Config(device=iree.runtime.get_device("local-sync"))
        module = iree.runtime.load_vm_module(iree.runtime.VmModule.copy_buffer(config.vm_instance, code), config)

        def run(arrays: Arrays) -> Arrays:
            result = module["main"](*(np.asarray(arrays[name], order="C") for name in inputs))
            results = result if isinstance(result, (tuple, list)) else [result]
            return {
                name: np.array(value.to_host()).view(dtype)
                for (name, dtype), value in zip(outputs.items(), results, strict=True)
            }

        def bare(arrays: Arrays) -> Callable[[], object]:
            given = [np.asarray(arrays[name], order="C") for name in inputs]
            return partial(module["main"], *(iree.runtime.asdevicearray(config.device, array) for array in given))

        return Runnable(run, bare)

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or any(text in str(error) for text in _REJECTIONS)


def _dtype(value: Any) -> np.dtype[Any]:
    """Return the dtype that the model declares: IREE's integers have no sign, and it returns uint8 as int8."""
    import onnx

    dtype: np.dtype[Any] = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    return dtype


def _import(model: Any) -> str:
    from iree.compiler.extras import onnx_importer
    from iree.compiler.ir import Context

    information = onnx_importer.ModelInfo(model)
    module = information.create_module(context=Context()).operation
    onnx_importer.NodeImporter.define_function(information.main_graph, module).import_all()
    module.verify()
    return str(module.get_asm())


def _compile(text: str, flags: Sequence[str]) -> bytes:
    """Compile through the C interface: the Python wrapper prints the diagnostics instead of returning them."""
    from iree.compiler.api import Output, Session, Source, ctypes_dl

    diagnostics: list[str] = []

    def collect(severity: int, message: Any, size: int, data: object) -> None:
        diagnostics.append(ctypes.string_at(message, size).decode(errors="replace"))

    collector = _DiagnosticCallback(collect)  # must live as long as the invocation

    session = Session()
    try:
        session.set_flags(*_FLAGS, *flags)
    except ValueError as error:
        raise DriftlineError(f"IREE does not take these flags: {' '.join(str(error).split())}") from error
    invocation = session.invocation()
    enable = ctypes_dl._dylib.ireeCompilerInvocationEnableCallbackDiagnostics
    enable.restype, enable.argtypes = None, [ctypes.c_void_p, ctypes.c_int, _DiagnosticCallback, ctypes.c_void_p]
    enable(invocation._inv_p, 0, collector, None)
    source = Source.wrap_buffer(session, text.encode())
    logged = os.fstat(_STDERR).st_size
    if not (invocation.parse_source(source) and invocation.execute()):
        told = [*_missing_symbol(_log_since(logged)), *diagnostics]
        raise IreeError("\n".join(told) or "it failed without a diagnostic")
    output = Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    return bytes(output.map_memory())


def _log_since(start: int) -> str:
    """Return what was written to the worker's log since `start`; empty if the output is not a readable file."""
    with contextlib.suppress(OSError):
        return os.pread(_STDERR, _LOG_READ, start).decode(errors="replace")
    return ""


def _missing_symbol(log: str) -> list[str]:
    """Return an error line for one undefined symbol, so that a program with two has no separate bug; empty if none."""
    missing = _UNDEFINED.findall(log)
    return [f"error: undefined symbol: {min(missing)}"] if missing else []
