"""XLA through JAX. JAX programs run as they are; torch programs are exported and run through torchax.

Without 64-bit types JAX narrows wide inputs silently, so they are on when an input is wide, and for torch always;
otherwise the user's file decides.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import mmap
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from driftline.backends._jax import precision
from driftline.backends._torchax import import_torchax, is_torchax_rejection, torchax_runner
from driftline.backends.base import (
    BOOLEAN,
    BOOLEAN_VALUES,
    Backend,
    Behaviour,
    Compiled,
    CompilerPass,
    Option,
    Options,
    PassTrials,
    Runnable,
    option,
)
from driftline.backends.knobs import Knob
from driftline.backends.loop_settings import XLA
from driftline.backends.xla_dumps import dump_settings, dumps_already, taken_passes
from driftline.core.errors import DriftlineError
from driftline.core.packages import Installing
from driftline.core.processor import ARM, X86, Processor
from driftline.core.rule import NO_PASS, ONE_PASS
from driftline.core.script_call import ScriptCall
from driftline.core.structure import flatten
from driftline.core.tensors import Arrays
from driftline.core.text import did_you_mean, first_line
from driftline.core.tracker import Tracker
from driftline.programs.live import LiveProgram
from driftline.programs.opened import OpenedProgram

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"

_REJECTIONS = (  # Python that depends on values, which a compiler of whole programs does not see
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TracerArrayConversionError",
    "ConcretizationTypeError",
    "NonConcreteBooleanIndexError",
)
_PASS = re.compile(r"[\w-]+")
# The passes of XLA's CPU pipeline that only optimise. The others lower the program, and are always needed.
OPTIMISING = tuple(
    """
    algsimp batch-dot-simplification conditional-to-select constant_folding cse dce fusion
    gemv-rewriter literal-canonicalizer map-inline reshape-mover shape-canonicalizer
    simplify-conditional simplify-sorts simplify-while-loops small-while-loop-hoisting topk-rewriter transpose-folding
    tree_reduction_rewriter tuple-simplifier while-loop-constant-sinking while-loop-invariant-code-motion
    zero_sized_hlo_elimination
    """.split()
)
# Values of `xla_cpu_max_isa`, each with the processor features that it needs.
_INSTRUCTION_SETS: dict[str, dict[str, tuple[str, ...]]] = {
    X86: {
        "SSE4_2": ("sse4_2",),
        "AVX": ("avx",),
        "AVX2": ("avx2", "fma"),
        "AVX512": ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
        "AVX512_VNNI": ("avx512_vnni",),
        "AVX512_BF16": ("avx512_bf16",),
        "AMX": ("amx_tile", "amx_bf16", "amx_int8"),
    },
    ARM: {"NEON": ("asimd",), "SVE": ("sve",), "SVE2": ("sve2",)},
}


_TRACKER = Tracker(
    "https://github.com/jax-ml/jax/issues",
    (
        ("Description", "{description}\n\n{reproducer}\n\nIt prints:\n\n{output}"),
        ("System info (python version, jaxlib version, accelerator, etc.)", "{versions}"),
    ),
)
_SCRIPT = """\
def xla(function, *inputs):
    known = torch._ops.OpOverloadPacket.__getattr__

    def lenient(packet, name):  # torchax names overloads that torch has dropped meanwhile
        return known(packet, name) if name.startswith("__") or name in packet.overloads() else object()

    with mock.patch.object(torch._ops.OpOverloadPacket, "__getattr__", lenient):
        from torchax.export import exported_program_to_jax
    weights, translated = exported_program_to_jax(torch.export.export(function, inputs))
    return jax.device_get(jax.jit(translated{options})(weights, [x.numpy() for x in inputs]))
"""


class Xla(Backend):
    name = "xla"
    start_seconds = 3.8
    arithmetic = "flush-to-zero"  # documented: XLA on a CPU takes subnormal numbers for zero
    batch = 20
    captures = True  # of torch programs
    accepts = ("source:jax", "source:torch", "torch")
    module = "jax"
    distribution = "jax"
    also_in = ("jaxlib",)
    extra = "jax"
    installing = {"jax": Installing(compiled_half="jaxlib")}
    tracker = _TRACKER
    rungs = ("jit=off",)
    options = {
        "jit": Option("compile the program as a whole, or run it operation by operation", ("on", "off"), "on"),
        "opt": Option("optimisation level of its LLVM code", ("0", "1", "2", "3"), "3"),
        "fusion_emitters": Option("generate code for fusions by the newer emitters", BOOLEAN, "true"),
        "disable": Option("passes over HLO to leave out by name, joined with '+'"),
        ONE_PASS: Option("one optimising pass over HLO and no other; none: none of them"),
    }
    settings = r"xla_\w+"
    settings_words = "Flags of XLA go by their own names, as in xla_cpu_enable_fast_math=true."

    _dumps: Path | None = None  # where passes are written down while they are watched

    def validate(self, options: Options, target: str) -> None:
        super().validate(options, target)
        for name in options.get("disable", "algsimp").split("+"):
            if not _PASS.fullmatch(name):
                raise DriftlineError(
                    f"Target {target!r}: {name!r} is no name of a pass; join several with '+', as in 'algsimp+fusion'."
                )
        if name := options.get(ONE_PASS, ""):
            if taken := [key for key in ("disable", "jit", "opt") if key in options]:
                raise DriftlineError(f"Target {target!r}: pass={name} has one pass alone; leave out {taken[0]}=.")
            if name not in (NO_PASS, *OPTIMISING):
                raise DriftlineError(
                    f"Target {target!r}: {name!r} is no optimising pass that is known.{did_you_mean(name, OPTIMISING)}"
                    " See driftline passes list."
                )

    def isa_variants(self, processor: Processor) -> Sequence[Options]:
        return [{"xla_cpu_max_isa": name} for name in xla_instruction_sets(processor)]

    def loop_settings(self) -> tuple[Options, ...]:
        return XLA

    def check_settings(self, settings: Options) -> None:
        import jax

        try:
            jax.jit(lambda x: x + 1, compiler_options=xla_config(settings))(1.0)
        except Exception as error:
            unknown = re.search(r"No such compile option: '(\w+)'", str(error))
            near = did_you_mean(unknown[1], _known_flags()) if unknown else ""
            told = f"there is no flag {unknown[1]!r}" if unknown else first_line(str(error)).rstrip(".")
            raise DriftlineError(f"XLA does not take its settings: {told}.{near}") from error

    def plainest(self, options: Options) -> Options | None:
        if ONE_PASS in options:
            return super().plainest(options)
        return None  # what it rejects depends on values in Python, which only a compiler of whole programs has not

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        settings = xla_config(options)
        more = f", compiler_options={settings!r}" if settings else ""
        if framework == "tensorflow":
            return [ScriptCall("tf.function(function, jit_compile=True)")]
        if framework == "jax":
            return [ScriptCall(f"jax.jit(function{more})")]
        if framework != "torch":
            return ()
        imports, packages = ("import jax", "from unittest import mock"), ("jax", "jaxlib", "torchax")
        setup = ('jax.config.update("jax_enable_x64", True)',)
        text = _SCRIPT.format(options=more)
        return [ScriptCall("xla(function, *inputs)", text, imports, packages, setup, arrays=True)]

    def settings_text(self, options: Options) -> str:
        if options.get("jit") == "off":
            return "jax.disable_jit()"
        settings = xla_config(options).items()
        flags = [f"--{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in settings]
        return f"XLA_FLAGS={' '.join(flags)}" if flags else ""

    def warm(self) -> None:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        # Before the user's own flags: the last one counts.
        os.environ["XLA_FLAGS"] = f"{ONE_THREAD} {os.environ.get('XLA_FLAGS', '')}".strip()
        import jax.numpy  # noqa: F401

        if importlib.util.find_spec("torchax"):
            import_torchax()

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import jax

        dumping = dump_settings(self._dumps) if self._dumps else {}
        run = _runner(program, {**xla_config(options), **dumping})
        if option(options, self, "jit") == "on":
            run(program.example)  # XLA compiles during the first call
            return run

        def operation_by_operation(arrays: Arrays) -> Arrays:
            with jax.disable_jit():
                return run(arrays)

        return operation_by_operation

    def fixes_sizes(self, program: OpenedProgram) -> bool:
        return program.framework == "torch"  # torch.export gives the graph its sizes; JAX traces again

    def knobs_at_work(self, program: OpenedProgram, options: Options) -> list[Knob]:
        """Return the passes that change the program: XLA can write the program to a file after each of them."""
        if ONE_PASS in options:
            return []
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.suppress(Exception):
                _runner(program, {**xla_config(options), **dump_settings(folder)})(program.example)
            return [Knob("disable", name, "pass") for name in taken_passes(Path(folder))]

    @contextlib.contextmanager
    def watching(self) -> Iterator[Behaviour]:
        if dumps_already(os.environ):
            yield lambda program: []
            return
        with tempfile.TemporaryDirectory(prefix="xla-passes-") as folder:
            self._dumps = Path(folder)
            try:
                yield lambda program: taken_passes(Path(folder))
            finally:
                self._dumps = None

    def passes(self) -> Sequence[CompilerPass]:
        return [CompilerPass(name, "HLO") for name in OPTIMISING]

    def pass_trials(self, program: OpenedProgram) -> PassTrials:
        return _HloTrials(self, program) if program.framework == "jax" else super().pass_trials(program)

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or type(error).__name__ in _REJECTIONS or is_torchax_rejection(error)


def xla_config(options: Options) -> dict[str, object]:
    """Return the XLA configuration for a target's options."""
    settings: dict[str, object] = {}
    if name := options.get(ONE_PASS):
        settings["xla_backend_optimization_level"] = 0
        settings["xla_disable_hlo_passes"] = ",".join(one for one in OPTIMISING if one != name)
    if "opt" in options:
        settings["xla_backend_optimization_level"] = int(options["opt"])
    if "fusion_emitters" in options:
        settings["xla_cpu_use_fusion_emitters"] = options["fusion_emitters"] == "true"
    if "disable" in options:
        settings["xla_disable_hlo_passes"] = options["disable"].replace("+", ",")
    own = {key: value for key, value in options.items() if key.startswith("xla_")}
    return {**settings, **{key: BOOLEAN_VALUES.get(value, value) for key, value in own.items()}}


def xla_instruction_sets(processor: Processor) -> list[str]:
    """Return the values of `xla_cpu_max_isa` below the processor's best instruction set."""
    sets = _INSTRUCTION_SETS.get(processor.machine, {})
    return [name for name, features in sets.items() if processor.has(*features)][:-1]


def _known_flags() -> list[str]:
    """Return XLA's flags, read from its large library, since no interface lists them. Used only to suggest
    corrections."""
    found: set[str] = set()
    for place in importlib.metadata.files("jaxlib") or ():
        if place.name.startswith("libjax_common"):
            with open(place.locate(), "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
                found.update(name.decode() for name in re.findall(rb"xla_[a-z0-9_]{4,}", library))
    return sorted(found)


class _HloTrials(PassTrials):
    """Compares the HLO of a JAX program with one pass to that without any. Only passes that change the program in the
    whole pipeline are tried, since each costs a compilation."""

    def __init__(self, backend: Xla, program: OpenedProgram) -> None:
        super().__init__(backend, program)
        self._at_work = {knob.value for knob in backend.knobs_at_work(program, {})}
        self._plain = self._text(NO_PASS)

    def changes(self, name: str) -> bool:
        return name in self._at_work and self._text(name) != self._plain

    def _text(self, name: str) -> str:
        jitted, wide = _jitted(self.program, xla_config({ONE_PASS: name}))
        with precision(wide, self.program.example):
            return str(jitted.lower(self.program.example).compile().as_text())


def _runner(program: OpenedProgram, settings: Mapping[str, object]) -> Compiled:
    return _jax_runner(program, settings) if program.framework == "jax" else torchax_runner(program, settings)


def _jax_runner(program: OpenedProgram, settings: Mapping[str, object]) -> Compiled:
    compiled, wide = _jitted(program, settings)

    def run(arrays: Arrays) -> Arrays:
        with precision(wide, arrays):
            return {name: np.asarray(leaf) for name, leaf in compiled(arrays).items()}

    def bare(arrays: Arrays) -> Callable[[], object]:
        import jax

        with precision(wide, arrays):
            given = {name: jax.numpy.asarray(array) for name, array in arrays.items()}

        def called() -> object:
            with precision(wide, arrays):
                return jax.block_until_ready(compiled(given))

        return called

    return Runnable(run, bare)


def _jitted(program: OpenedProgram, settings: Mapping[str, object]) -> tuple[Any, bool]:
    """Return the program under `jax.jit`, and whether its file enables 64-bit types."""
    import jax

    live, wide = load_with_own_precision(program)
    return jax.jit(lambda arrays: leaves_of(call(live, arrays)), compiler_options=dict(settings) or None), wide


def load_with_own_precision(program: OpenedProgram) -> tuple[LiveProgram, bool]:
    """Load the program, and return whether its file enables 64-bit types. An earlier program's choice is reset
    first."""
    import jax

    default = os.environ.get("JAX_ENABLE_X64", "").lower() in ("1", "true", "t", "yes", "y", "on")
    jax.config.update("jax_enable_x64", default)
    live = program.live
    return live, bool(jax.config.jax_enable_x64)


def call(live: LiveProgram, arrays: Any) -> Any:
    import jax.numpy as jnp

    args, kwargs = live.call_arguments(arrays, jnp.asarray)
    return live.function(*args, **kwargs)


def leaves_of(result: Any) -> dict[str, Any]:
    """Return every array of a result by name; Python numbers become arrays, and random keys their underlying
    numbers."""
    import jax
    import jax.numpy as jnp

    def plain(leaf: Any) -> Any:
        if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.key_data(leaf)
        return jnp.asarray(leaf)

    return {name: plain(leaf) for name, leaf in flatten(result, "output").items()}
