"""ONNX Runtime on the CPU. Optimisation levels, and single optimisers switched off by name.

Traps: an unknown name among the disabled optimisers is ignored without a word, so the names are checked here. Recent
releases start a thread at import that reports to their maker. bfloat16 and the 8-bit floats pass through as raw bits.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from driftline.backends.base import (
    Backend,
    Compiled,
    Option,
    Options,
    PassTrials,
    Runnable,
    Unsupported,
    each_setting,
    option,
)
from driftline.backends.knobs import Knob
from driftline.core.errors import DriftlineError
from driftline.core.packages import Installing
from driftline.core.processor import ARM, Processor
from driftline.core.quoting import string
from driftline.core.rule import NO_PASS, ONE_PASS
from driftline.core.script_call import ScriptCall
from driftline.core.target import listed
from driftline.core.tensors import Array, Arrays, numpy_dtype
from driftline.core.text import did_you_mean
from driftline.core.tracker import Tracker
from driftline.programs.onnx.signature import graph_signature
from driftline.programs.opened import OpenedProgram

_LEVELS = {
    "off": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}

# Rewrite rules: the session's log names only the two optimisers that contain them, not the rules.
REWRITE_RULES = frozenset(
    """
    CastChainElimination CastElimination ClipQuantRewrite ConvAddFusion ConvBNFusion ConvMulFusion DivMulFusion
    EliminateDropout EliminateIdentity EliminateSlice ExpandElimination FuseReluClip GemmSumFusion GemmTransposeFusion
    LabelEncoderFusion MatMul_BatchNormalization_Fusion NoopElimination NotWhereFusion Pad_Fusion
    PreShapeNodeElimination ReluQuantRewrite UnsqueezeElimination
    """.split()
)
RULE_HOLDERS = frozenset(["Level1_RuleBasedTransformer", "Level2_RuleBasedTransformer"])

# There is no interface that lists them. Transformers are those that a session of 1.31.1 names in its verbose log;
# rewrite rules, and names of older releases, are the constructor arguments in onnxruntime/core/optimizer.
OPTIMIZERS = REWRITE_RULES | frozenset(
    """
    AttentionFusion Avx2WeightS8ToU8Transformer BiasDropoutFusion BiasGeluFusion BiasSkipLayerNormFusion
    BiasSoftmaxFusion CommonSubexpressionElimination ConstantFolding ConstantSharing ConvActivationFusion
    ConvAddActivationFusion DoubleQDQPairsRemover DynamicQuantizeMatMulFusion EmbedLayerNormFusion
    EnsureUniqueDQForNodeUnit FastGeluFusion FreeDimensionOverrideTransformer GatherSliceToSplitFusion
    GatherToSliceFusion GatherToSplitFusion GeluApproximation GeluFusion GeluFusionL1 GeluFusionL2 GemmActivationFusion
    GroupQueryAttentionFusion GroupQueryAttentionPreNormFusion LayerNormFusion LayerNormFusionL1 LayerNormFusionL2
    Level1_RuleBasedTransformer Level2_RuleBasedTransformer MatMulActivationFusion MatMulAddFusion
    MatMulIntegerToFloatFusion MatMulNBitsFusion MatMulScaleFusion MatmulTransposeFusion NchwcTransformer
    NhwcTransformer QDQFinalCleanupTransformer QDQPropagationTransformer QDQS8ToU8Transformer
    QDQSelectorActionTransformer QuickGeluFusion ReshapeFusion SimplifiedLayerNormFusion SkipLayerNormFusion
    SliceConcatToSpaceToDepthFusion TransposeOptimizer TransposeOptimizer_CPUExecutionProvider WeightBiasQuantization
    WhereDummyDq
    ConstantFoldingDQ DQMatMulNBitsFusion GqaValueLayoutTransformer MatMulNBitsMlpFusion MatMulNBitsQkvFusion
    NhwcTransformerC4
    """.split()
)

# Optimisers that are off unless a session setting enables them.
SETTINGS = {
    "Avx2WeightS8ToU8Transformer": "session.x64quantprecision",
    "CastChainElimination": "optimization.enable_cast_chain_elimination",
    "DQMatMulNBitsFusion": "session.enable_dq_matmulnbits_fusion",
    "GeluApproximation": "optimization.enable_gelu_approximation",
    "QDQFinalCleanupTransformer": "session.enable_quant_qdq_cleanup",
}

_SECTIONS = "session|optimization|ep|mlas|memory"  # prefixes of session config entries

# Element types that numpy does not know: their number in ONNX, and the integers that carry their bits.
_BITS = {"bfloat16": (16, np.uint16), "float8_e4m3fn": (17, np.uint8), "float8_e5m2": (19, np.uint8)}
_TYPE_NAMES = {f"tensor({name.replace('_', '')})": name for name in _BITS}

# A type error names an operator that is not offered for a valid type. "Type parameter (T) of ... bound to different
# types" is not among them: a checked model has no such node, so an optimiser made it.
_REJECTIONS = re.compile(
    r"NOT_IMPLEMENTED|Could not find an implementation for|Unsupported model IR version|"
    r"is under development and support for this is limited|ONNX Runtime only \*guarantees\* support|"
    r"Type Error: Type 'tensor\(\w+\)' of (input|output) parameter|is not a registered function/op|"
    r"No Op registered for|Error Unrecognized attribute|No opset import for domain|"
    r"not supported|Unsupported|does not support|only supports|Integer (modulo|division) by zero|"
    r"Numpy_type \d+ can't be converted to MLDataType"  # complex numbers
)


_TRACKER = Tracker(
    "https://github.com/microsoft/onnxruntime/issues",
    (
        ("Describe the issue", "{description}"),
        ("To reproduce", "{reproducer}\n\nIt prints:\n\n{output}"),
        ("Urgency", "No deadline."),
        ("Platform", "{platform}"),
        ("OS Version", "{system}"),
        ("ONNX Runtime Installation", "Released Package"),
        ("ONNX Runtime Version or Commit ID", "{version}"),
        ("ONNX Runtime API", "Python"),
        ("Architecture", "{architecture}"),
        ("Execution Provider", "Default CPU"),
        ("Execution Provider Library Version", "_none_"),
    ),
)
_SESSION = """\
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}
{entries}\
    session = onnxruntime.InferenceSession(model.SerializeToString(), options{disabled})
"""
_SCRIPT = f"""\
def compiled(model, inputs):
    options = onnxruntime.SessionOptions()
{_SESSION}\
    return session.run(None, inputs)
"""
_PREPARED = f"""\
def prepared(model, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
{_SESSION}\
    return lambda: session.run(None, inputs)
"""
_ONCE = f"""\
def compile_once(model, inputs):
    options = onnxruntime.SessionOptions()
{_SESSION}\
    return lambda inputs: session.run(None, inputs)
"""
_PLAIN_ONCE = """\
def compile_once(model, inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return lambda inputs: session.run(None, inputs)
"""
_ENTRY = """\
    options.add_session_config_entry({name}, {value})
"""
_PLAIN_CALL = "onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)"


class OnnxRuntime(Backend):
    name = "onnxruntime"
    start_seconds = 0.3
    preset = "quick"
    batch = 200
    accepts = ("onnx",)
    threads = True
    module = "onnxruntime"
    distribution = "onnxruntime"
    extra = "onnxruntime"
    installing = {"onnxruntime-gpu": Installing(module="onnxruntime")}
    tracker = _TRACKER
    options = {
        "opt": Option("graph optimisation level", tuple(_LEVELS), "all"),
        "disable": Option("optimisers to leave out, joined with '+'"),
        "enable": Option("optimisers to use that are off by default, joined with '+'"),
        ONE_PASS: Option("one optimiser and no other; none: no optimiser at all"),
    }
    settings = rf"(?:{_SECTIONS})\.[\w.]+"
    settings_words = "Entries of a session's configuration go by their own names, as in session.disable_prepacking=1."

    def validate(self, options: Options, target: str) -> None:
        super().validate(options, target)
        for name in listed(options, "disable"):
            if name not in OPTIMIZERS:
                raise DriftlineError(
                    f"Target {target!r}: ONNX Runtime has no optimiser {name!r}.{did_you_mean(name, OPTIMIZERS)}"
                    " Join several with '+'."
                )
        for name in listed(options, "enable"):
            if name not in SETTINGS:
                raise DriftlineError(
                    f"Target {target!r}: {name!r} is no optimiser that has to be enabled.{did_you_mean(name, SETTINGS)}"
                    f" These are off by default: {', '.join(SETTINGS)}."
                )
        if name := options.get(ONE_PASS, ""):
            if taken := [key for key in ("opt", "disable", "enable") if key in options]:
                raise DriftlineError(f"Target {target!r}: pass={name} has one optimiser alone; leave out {taken[0]}=.")
            if name not in (NO_PASS, *OPTIMIZERS):
                raise DriftlineError(
                    f"Target {target!r}: ONNX Runtime has no optimiser {name!r}.{did_you_mean(name, OPTIMIZERS)}"
                    " See driftline passes list."
                )

    def isa_variants(self, processor: Processor) -> Sequence[Options]:
        # On x86-64 its kernels (MLAS) follow the processor, with no switch. On 64-bit Arm those of KleidiAI can go.
        return [{"mlas.disable_kleidiai": "1"}] if processor.machine == ARM else ()

    def varied_settings(self, processor: Processor) -> list[Options]:
        own = each_setting(
            "session.disable_prepacking=1", "session.enable_mem_pattern=0", "session.disable_quant_qdq=1"
        )
        return [*super().varied_settings(processor), *own]

    def check_settings(self, settings: Options) -> None:
        known = _known_entries()
        for name in settings:
            if known and name not in known:
                raise DriftlineError(f"ONNX Runtime reads no session entry {name!r}.{did_you_mean(name, known)}")

    def knobs(self, options: Options) -> list[Knob]:
        if ONE_PASS in options:
            return super().knobs(options)
        left = OPTIMIZERS.difference(listed(options, "disable"))
        # The optimisers that contain rewrite rules come last: a single rule is more precise.
        kinds = {name: "pass" if name.endswith("RuleBasedTransformer") else "optimiser" for name in sorted(left)}
        return [*super().knobs(options), *(Knob("disable", name, kind) for name, kind in kinds.items())]

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        if name := options.get(ONE_PASS):
            options = with_optimisers([] if name == NO_PASS else [name])
        if framework != "onnx" or "enable" in options:
            return ()
        imports, packages = ("import onnxruntime",), ("onnxruntime",)
        disabled = ", ".join(string(name) for name in listed(options, "disable"))
        own = self.own_settings(options)
        text, prepared, once = (
            script.format(
                level=_LEVELS[option(options, self, "opt")],
                disabled=f", disabled_optimizers=[{disabled}]" if disabled else "",
                entries="".join(_ENTRY.format(name=string(k), value=string(_entry(v))) for k, v in own.items()),
            )
            for script in (_SCRIPT, _PREPARED, _ONCE)
        )
        if not disabled and not own and option(options, self, "opt") == "all":
            return [ScriptCall(_PLAIN_CALL, imports=imports, packages=packages, prepared=prepared, once=_PLAIN_ONCE)]
        return [ScriptCall("compiled(model, inputs)", text, imports, packages, prepared=prepared, once=once)]

    def settings_text(self, options: Options) -> str:
        level = options.get("opt", "all")
        said = [f"graph_optimization_level = {_LEVELS[level]}"] if level != "all" else []
        names = listed(options, "disable")
        said += [f"disabled_optimizers={names}"] if names else []
        entries = self.own_settings(options).items()
        return ", ".join([*said, *(f"add_session_config_entry({k!r}, {_entry(v)!r})" for k, v in entries)])

    def warm(self) -> None:
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        super().warm()

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        return runner(self.session(program.source, options))

    def session(self, model: str | bytes, options: Options, *, optimised: str = "", severity: int = 3) -> Any:
        """Return a session for a model or its path. `optimised`: a file for the optimised model. With `severity` 1 the
        log names the optimisers that changed something."""
        import onnxruntime as ort

        if name := options.get(ONE_PASS):
            options = with_optimisers([] if name == NO_PASS else [name])
        ort.set_default_logger_severity(3)
        settings = ort.SessionOptions()
        settings.log_severity_level = severity
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1
        settings.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _LEVELS[option(options, self, "opt")])
        if optimised:
            settings.optimized_model_filepath = optimised
        for name in listed(options, "enable"):
            settings.add_session_config_entry(SETTINGS[name], "1")
        for name, value in self.own_settings(options).items():
            settings.add_session_config_entry(name, _entry(value))
        disabled = listed(options, "disable") or None
        return ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"], disabled_optimizers=disabled)

    def pass_trials(self, program: OpenedProgram) -> PassTrials:
        return _OptimiserTrials(self, program)

    def is_rejection(self, error: BaseException) -> bool:
        return (
            super().is_rejection(error)
            or type(error).__name__ == "NotImplemented"
            or bool(_REJECTIONS.search(str(error)))
        )


def _entry(value: str) -> str:
    """Return the text of a config entry: 1 and 0 for true and false."""
    return {"true": "1", "false": "0"}.get(value, value)


@cache
def _known_entries() -> frozenset[str]:
    """Return the config entries that ONNX Runtime knows, read from its library: no interface lists them, and unknown
    ones are ignored."""
    found: set[str] = set()
    for place in importlib.metadata.files("onnxruntime") or ():
        if place.name.startswith("onnxruntime_pybind11_state"):
            names = re.findall(rb"\x00((?:" + _SECTIONS.encode() + rb")\.[\w.]*\w)(?=\x00)", place.read_binary())
            found.update(name.decode() for name in names)
    return frozenset(found)


def with_optimisers(names: Sequence[str]) -> dict[str, str]:
    """Return the options that disable all optimisers but these."""
    holders = RULE_HOLDERS if REWRITE_RULES.intersection(names) else frozenset[str]()
    enabled = [name for name in names if name in SETTINGS]
    return {
        "disable": "+".join(sorted(OPTIMIZERS.difference(names, holders))),
        **({"enable": "+".join(enabled)} if enabled else {}),
    }


class _OptimiserTrials(PassTrials):
    """Compares the graph optimised with one optimiser to the graph without any."""

    backend: OnnxRuntime

    def __init__(self, backend: OnnxRuntime, program: OpenedProgram) -> None:
        super().__init__(backend, program)
        self._plain = self._graph(NO_PASS)

    def changes(self, name: str) -> bool:
        return self._graph(name) != self._plain

    def _graph(self, name: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "optimised.onnx")
            self.backend.session(self.program.source, {ONE_PASS: name}, optimised=str(path))
            return graph_signature(path.read_bytes())


def runner(session: Any) -> Compiled:
    """Return a session as a function of named arrays."""
    import onnxruntime as ort

    names = [output.name for output in session.get_outputs()]
    wanted = {value.name for value in session.get_inputs()}
    unusual = any(value.type in _TYPE_NAMES for value in (*session.get_inputs(), *session.get_outputs()))

    def run(arrays: Arrays) -> Arrays:
        feed = {name: array for name, array in arrays.items() if name in wanted}
        if unusual:
            values = {name: _to_ort(ort, array) for name, array in feed.items()}
            results = [_from_ort(value) for value in session.run_with_ort_values(names, values)]
        else:
            results = session.run(names, feed)
        return dict(zip(names, results, strict=True))

    def bare(arrays: Arrays) -> Callable[[], object]:
        held = {name: np.asarray(array, order="C") for name, array in arrays.items() if name in wanted}
        if not unusual:
            return partial(session.run, names, held)
        binding = session.io_binding()  # `run_with_ort_values` spends 0.1 ms on wrapping what it is given
        for name, array in held.items():
            binding.bind_ortvalue_input(name, _to_ort(ort, array))
        for name in names:
            binding.bind_output(name)

        def called(held: Arrays = held) -> object:  # the bound values are views of the held arrays
            session.run_with_iobinding(binding)
            return binding

        return called

    return Runnable(run, bare)


def _to_ort(ort: Any, array: Array) -> Any:
    if array.dtype.name not in _BITS:
        return ort.OrtValue.ortvalue_from_numpy(array)
    if not hasattr(ort.OrtValue, "ortvalue_from_numpy_with_onnx_type"):
        raise Unsupported(f"this release takes no {array.dtype.name} from Python")
    number, bits = _BITS[array.dtype.name]
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.asarray(array, order="C").view(bits), number)


def _from_ort(value: Any) -> Array:
    """Convert a result whose type ONNX Runtime's own conversion to numpy does not know, by reading its memory."""
    name = _TYPE_NAMES.get(value.data_type())
    if name is None:
        return np.asarray(value.numpy())
    dtype, shape = numpy_dtype(name), tuple(value.shape())
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(bytearray(ctypes.string_at(value.data_ptr(), size)), dtype).reshape(shape)
