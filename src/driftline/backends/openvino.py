"""OpenVINO on the CPU, reading ONNX.

Traps: without `INFERENCE_PRECISION_HINT=f32` it computes in bfloat16 wherever the processor can, with errors of 2e-3
everywhere. It narrows int64 to int32 and computes float64 in float32 without a word; both are results that a user sees,
so they are compared like any other. Importing it sends an event to its maker, from a thread.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from driftline.backends.base import BOOLEAN, Backend, Compiled, Option, Options, Runnable, Unsupported
from driftline.core.errors import DriftlineError
from driftline.core.processor import X86, Processor, this_processor
from driftline.core.quoting import string
from driftline.core.script_call import ScriptCall
from driftline.core.tensors import Array, Arrays, numpy_dtype
from driftline.core.text import did_you_mean, telling_line
from driftline.core.tracker import Tracker
from driftline.programs.opened import OpenedProgram

# Settings that make results exact and repeatable; `dynamo:openvino` uses them too.
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}

# From 2024.1 to 2026.4; each stands in the middle of a long report.
REJECTIONS = (
    "No conversion rule found for operations|OpenVINO does not support the following ONNX operations|Unsupported |"
    "unsupported element type|"
    "(is|are|only) (not )?supported|not supported|doesn't support|does not support|Not Implemented|not implemented|"
    r"must be a [^.]*constant\.|`fmod` attribute must be set to 1|Supported \w+ executor is not found"
)


_TRACKER = Tracker(
    "https://github.com/openvinotoolkit/openvino/issues",
    (
        ("OpenVINO Version", "{version}"),
        ("Operating System", "{system}"),
        ("Device used for inference", "CPU"),
        ("Framework", "{framework}"),
        ("Model used", "The model in the script below."),
        ("Issue description", "{description}"),
        ("Step-by-step reproduction", "{reproducer}"),
        ("Relevant log output", "{output}"),
        (
            "Issue submission checklist",  # only a person can tick the second box
            "- [x] I'm reporting an issue. It's not a question.\n"
            "- [ ] I checked the problem with the documentation, FAQ, open issues, Stack Overflow, etc.,"
            " and have not found a solution.\n"
            "- {script_box} There is reproducer code and related data files such as images, videos, models, etc.",
        ),
    ),
)
# oneDNN's names of instruction sets (ONEDNN_MAX_CPU_ISA), each with the processor features that it needs.
_INSTRUCTION_SETS = {
    "sse41": ("sse4_1",),
    "avx": ("avx",),
    "avx2": ("avx2", "fma"),
    "avx2_vnni": ("avx_vnni",),
    "avx512_core": ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
    "avx512_core_vnni": ("avx512_vnni",),
    "avx512_core_bf16": ("avx512_bf16",),
    "avx512_core_amx": ("amx_tile", "amx_bf16", "amx_int8"),
}
_SCRIPT = """\
def compiled(model, inputs):
    network = openvino.Core().read_model(model.SerializeToString(), b"")
    return openvino.compile_model(network, "CPU", @CONFIG@)(inputs).to_tuple()
"""
_PREPARED = """\
def prepared(model, inputs):
    network = openvino.Core().read_model(model.SerializeToString(), b"")
    network = openvino.compile_model(network, "CPU", @CONFIG@ | {"INFERENCE_NUM_THREADS": 1})
    return lambda: network(inputs, share_inputs=True, share_outputs=True)
"""
_ONCE = """\
def compile_once(model, inputs):
    network = openvino.Core().read_model(model.SerializeToString(), b"")
    network = openvino.compile_model(network, "CPU", @CONFIG@)
    return lambda inputs: network(inputs).to_tuple()
"""
# numpy does not know bfloat16: such arrays go and come as bits.
_SCRIPT_WITH_BITS = """\
def compiled(model, inputs):
    network = openvino.Core().read_model(model.SerializeToString(), b"")
    given = {
        name: openvino.Tensor(x.view("uint16"), x.shape, openvino.Type.bf16) if x.dtype == "bfloat16" else x
        for name, x in inputs.items()
    }
    made = openvino.compile_model(network, "CPU", @CONFIG@)(given)
    return [x.view("bfloat16") if port.element_type.to_string() == "bf16" else x for port, x in made.items()]
"""


class OpenVino(Backend):
    name = "openvino"
    start_seconds = 0.4
    preset = "quick"
    batch = 60
    accepts = ("onnx",)
    module = "openvino"
    distribution = "openvino"
    extra = "openvino"
    tracker = _TRACKER
    arithmetic = "double-as-single"  # documented: the CPU plug-in has no float64 kernels
    options = {
        "snippets": Option("fuse elementwise operations into generated kernels", BOOLEAN, "true"),
        "low_precision": Option("low-precision transformations of quantised models", BOOLEAN, "true"),
        "mode": Option("what it is tuned for", ("performance", "accuracy"), "performance"),
        "kernel_cache": Option("reuse compiled kernels within a model", BOOLEAN, "true"),
        "isa": Option("highest instruction set of its kernels on x86-64", tuple(_INSTRUCTION_SETS)),
    }
    settings = r"[A-Z][A-Z0-9_]+"
    settings_words = "Properties of its CPU plug-in go by their own names, as in ENABLE_CPU_PINNING=false."

    def isa_variants(self, processor: Processor) -> Sequence[Options]:
        # On 64-bit Arm its kernels follow the processor, with no switch.
        if processor.machine != X86:
            return ()
        return [{"isa": name} for name, features in _INSTRUCTION_SETS.items() if processor.has(*features)][:-1]

    def varied_settings(self, processor: Processor) -> list[Options]:
        usable = self.isa_variants(processor)
        return [options for options in super().varied_settings(processor) if "isa" not in options or options in usable]

    def variables(self, options: Options) -> Mapping[str, str]:
        return {"ONEDNN_MAX_CPU_ISA": options["isa"].upper()} if "isa" in options else {}

    def check_settings(self, settings: Options) -> None:
        forbid_telemetry()
        import openvino

        core = openvino.Core()
        access = core.get_property("CPU", "SUPPORTED_PROPERTIES")  # not all of them: it takes more
        given = openvino.opset13.parameter([1], np.float32)
        smallest = openvino.Model([openvino.opset13.relu(given)], [given], "smallest")
        for name, value in settings.items():
            try:
                core.compile_model(smallest, "CPU", {name: value})
            except Exception as error:
                missing = f"Unsupported property {name} " in str(error)
                told = f"has no property {name!r}" if missing else f"does not take {name}={value}"
                near = did_you_mean(name, [key for key in access if "W" in access[key]]) if missing else ""
                raise DriftlineError(f"OpenVINO's CPU plug-in {told}: {telling_line(str(error))}{near}") from error

    def plainest(self, options: Options) -> Options:
        return {"snippets": "false", "low_precision": "false", "mode": "accuracy", "kernel_cache": "false"}

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        if framework != "onnx":
            return ()
        call, packages = "compiled(model, inputs)", ("openvino",)
        imports: tuple[str, ...] = ("import openvino",)
        config = {"INFERENCE_PRECISION_HINT": "f32", **_settings(options), **self.own_settings(options)}
        told = "{" + ", ".join(f"{string(name)}: {string(value)}" for name, value in config.items()) + "}"
        text, with_bits, prepared, once = (
            script.replace("@CONFIG@", told) for script in (_SCRIPT, _SCRIPT_WITH_BITS, _PREPARED, _ONCE)
        )
        setup: tuple[str, ...] = ()
        for name, value in self.variables(options).items():
            imports, setup = ("import os", *imports), (*setup, f"os.environ[{string(name)}] = {string(value)}")
        others = {"bfloat16": with_bits}
        return [ScriptCall(call, text, imports, packages, setup, text_for=others, prepared=prepared, once=once)]

    def warm(self) -> None:
        forbid_telemetry()
        super().warm()

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        if "isa" in options and this_processor().machine != X86:
            raise Unsupported("isa limits the kernels for x86-64, and this is another processor")
        forbid_telemetry()
        import openvino

        core = openvino.Core()
        source = program.source  # a path is mapped
        model = core.read_model(source) if isinstance(source, str) else core.read_model(source, b"")
        compiled = core.compile_model(model, "CPU", {**CONFIG, **_settings(options), **self.own_settings(options)})
        request = compiled.create_infer_request()
        inputs = _names(model.inputs, [spec.name for spec in program.program.inputs] or list(program.example))
        if not program.example.keys() >= set(inputs):
            raise Unsupported("the importer leaves an input out, and gives another one a new name")
        outputs = _names(model.outputs, list(program.program.outputs))

        def run(arrays: Arrays) -> Arrays:
            request.infer({index: _to_tensor(arrays[name]) for index, name in enumerate(inputs)})
            return {name: _to_array(request.get_output_tensor(index)) for index, name in enumerate(outputs)}

        def bare(arrays: Arrays) -> Callable[[], object]:
            held = [np.asarray(arrays[name], order="C") for name in inputs]  # tensors of bits are views of these
            for index, array in enumerate(held):
                request.set_input_tensor(index, _to_tensor(array))

            def called(held: Sequence[Array] = held) -> object:
                return request.infer(share_outputs=True)

            return called

        return Runnable(run, bare)

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or bool(re.search(REJECTIONS, str(error)))


# What an option is called by the CPU plug-in, when it has not its default. The first two are not in its list of
# properties, but it takes them, and refuses names that it does not know.
_PROPERTIES = {
    ("snippets", "false"): ("SNIPPETS_MODE", "DISABLE"),
    ("low_precision", "false"): ("LP_TRANSFORMS_MODE", "NO"),
    ("mode", "accuracy"): ("EXECUTION_MODE_HINT", "ACCURACY"),
    ("kernel_cache", "false"): ("CPU_RUNTIME_CACHE_CAPACITY", "0"),
}


def _settings(options: Options) -> dict[str, str]:
    return dict(_PROPERTIES[option] for option in options.items() if option in _PROPERTIES)


def _names(ports: Sequence[Any], declared: Sequence[str]) -> list[str]:
    """Return the model's own names of ports. A port may have several names, or another's if an input is also an output,
    so the order decides; if unused ports are gone, the declared name among a port's names."""
    if len(ports) == len(declared):
        return list(declared)
    return [next((name for name in declared if name in port.get_names()), port.get_any_name()) for port in ports]


# Element types that numpy does not know travel as the bits they are.
_BITS = {"bfloat16": ("bf16", np.uint16), "float8_e4m3fn": ("f8e4m3", np.uint8), "float8_e5m2": ("f8e5m2", np.uint8)}


def _to_tensor(array: Array) -> Any:
    import openvino

    array = np.asarray(array, order="C")
    if array.dtype.name not in _BITS:
        return openvino.Tensor(array)
    element, bits = _BITS[array.dtype.name]
    return openvino.Tensor(array.view(bits), openvino.Shape(array.shape), getattr(openvino.Type, element))


def _to_array(tensor: Any) -> Array:
    element = tensor.get_element_type().get_type_name()
    names = [name for name, (type_name, _) in _BITS.items() if type_name == element]
    array: Array = np.array(tensor.data)
    return array.view(numpy_dtype(names[0])) if names else array


def forbid_telemetry() -> None:
    """Keep OpenVINO from importing its telemetry package: its thread is unsafe to fork."""
    if "openvino" not in sys.modules:
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
