"""Apache TVM through Relax, compiled with LLVM for this processor.

Traps: generated code checks nothing, so a Gather out of range is a SIGSEGV and an integer division by zero a SIGFPE.
The importer needs the `onnx` package and fixes every shape from the example inputs. What `tvm.compile` runs by default
lowers a model and hardly optimises it: the graph rewrites of Relax are transforms that users call (`passes=...`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from driftline.backends.base import (
    Backend,
    Compiled,
    CompilerPass,
    Option,
    Options,
    PassTrials,
    Runnable,
    Unsupported,
    option,
)
from driftline.backends.knobs import Knob
from driftline.backends.tvm_names import PIPELINE, REQUIRED, TRANSFORMS
from driftline.backends.tvm_passes import (
    SCRIPT_IMPORTS,
    PlainStages,
    TvmPass,
    known_passes,
    listed_passes,
    plain_executable,
    plain_script,
)
from driftline.backends.tvm_target import read_target
from driftline.core.errors import DriftlineError
from driftline.core.packages import Installing
from driftline.core.processor import ARM, Processor
from driftline.core.quoting import string
from driftline.core.rule import NO_PASS, ONE_PASS
from driftline.core.script_call import ScriptCall
from driftline.core.target import listed
from driftline.core.tensors import Array, Arrays
from driftline.core.text import did_you_mean, first_line
from driftline.core.tracker import Tracker
from driftline.programs.opened import OpenedProgram

# The importer has no single wording for what it does not do; above all it wants shapes, axes and counts as constants.
_REJECTIONS = re.compile(
    "not supported|not yet supported|currently supported|unsupported|not implemented|must be a constant|"
    "cannot handle ShapeExpr|requires the input new shape to be Shape|Missing outputs during conversion|"
    "only applies to float|only support |param datatype should be one of|unknown dtype `|"
    r"must be \d+ for Relax frontend"
)

_TRACKER = Tracker(
    "https://github.com/apache/tvm/issues",
    (
        ("Expected behavior", "{expected}"),
        ("Actual behavior", "{actual}"),
        ("Environment", "{versions}"),
        ("Steps to reproduce", "{reproducer}"),
        ("What is known", "{description}"),
        ("Triage", "* needs-triage"),
    ),
)
_COMPILING = """\
{skipping}\
def {name}(model, inputs):
    with tvm.transform.PassContext(opt_level={opt}{instruments}{config}):
{building}\
"""
_SCRIPT = f"""\
{_COMPILING}\
    result = tvm.relax.VirtualMachine(built, tvm.cpu())["main"](*map(tvm.runtime.tensor, inputs.values()))
    return [part.numpy() for part in ([result] if hasattr(result, "numpy") else result)]
"""
_PREPARED = f"""\
{_COMPILING}\
    main, given = tvm.relax.VirtualMachine(built, tvm.cpu())["main"], [*map(tvm.runtime.tensor, inputs.values())]
    return lambda: main(*given)
"""
_ONCE = f"""\
{_COMPILING}\
    main = tvm.relax.VirtualMachine(built, tvm.cpu())["main"]

    def run(inputs):
        result = main(*map(tvm.runtime.tensor, inputs.values()))
        return [part.numpy() for part in ([result] if hasattr(result, "numpy") else result)]

    return run
"""
_SKIPPING = """\
@tvm.instrument.pass_instrument
class Skipping:
    def should_run(self, module, information):
        return information.name not in {names}


"""
_BUILT = """\
        built = tvm.compile(from_onnx(model, {{name: x.shape for name, x in inputs.items()}}), target={target})
"""
_TRANSFORMED = """\
        module = from_onnx(model, {{name: x.shape for name, x in inputs.items()}})
        with tvm.target.Target({target}):
            for transform in [{names}]:
                module = getattr(tvm.relax.transform, transform)()(module)
        built = tvm.compile(module, target={target})
"""


class Tvm(Backend):
    name = "tvm"
    start_seconds = 4.4
    sizes = False  # compiled for the sizes of its example
    batch = 30
    accepts = ("onnx",)
    module = "tvm"
    distribution = "apache-tvm"
    extra = "tvm"
    # What 0.25 needs it asks for without an upper bound.
    installing = {"apache-tvm": Installing("tvm", ("onnx",), {"0.25.": ("apache-tvm-ffi==0.1.12",)})}
    tracker = _TRACKER
    options = {
        "opt": Option("optimisation level", ("0", "1", "2", "3"), "3"),
        "skip": Option("passes to leave out, joined with '+'"),
        "passes": Option("transforms of Relax to apply first, joined with '+'"),
        ONE_PASS: Option("one pass, and beside it only those without which nothing runs; none: only those"),
        "target": Option('TVM\'s own target, in quotes: "llvm -mcpu=... -mattr=...", or JSON'),
        "mcpu": Option("the processor to compile for: generic, native (this one), or a name that LLVM knows"),
    }
    settings = r"[a-z]\w*(\.\w+)+"
    settings_words = "Settings of its PassContext go by their own names, as in tirx.disable_vectorize=true."

    def validate(self, options: Options, target: str) -> None:
        super().validate(options, target)
        if "target" in options and "mcpu" in options:
            raise DriftlineError(f"Target {target!r}: mcpu is a part of TVM's target; give one of target and mcpu.")
        kind = read_target(options.get("target", "llvm"))
        if kind != "llvm" and not re.match(r'\{.*"kind": ?"llvm"', kind, re.DOTALL):
            raise DriftlineError(
                f"Target {target!r}: its code runs on this processor, so TVM's target must be one of LLVM, as in"
                ' target="llvm -mcpu=generic".'
            )
        for name in listed(options, "skip"):
            if name in REQUIRED:
                raise DriftlineError(f"Target {target!r}: nothing compiles without {name}; leave out another pass.")
            if name not in PIPELINE:
                raise DriftlineError(f"Target {target!r}: TVM runs no pass {name!r}.{did_you_mean(name, PIPELINE)}")
        for name in listed(options, "passes"):
            if name not in TRANSFORMS:
                raise DriftlineError(
                    f"Target {target!r}: there is no transform {name!r} that needs no arguments."
                    f"{did_you_mean(name, TRANSFORMS)} Known: {', '.join(TRANSFORMS)}."
                )
        if name := options.get(ONE_PASS, ""):
            if taken := [key for key in ("skip", "passes") if key in options]:
                raise DriftlineError(f"Target {target!r}: pass={name} has one pass alone; leave out {taken[0]}=.")
            if name not in (NO_PASS, *self.tried()):
                raise DriftlineError(
                    f"Target {target!r}: there is no pass {name!r} that can be tried alone."
                    f"{did_you_mean(name, self.tried())} See driftline passes list."
                )

    def tried(self) -> Mapping[str, TvmPass]:
        """The passes that can be tried alone, by name."""
        return known_passes()

    def isa_variants(self, processor: Processor) -> Sequence[Options]:
        names = processor.levels or ("generic",) * (processor.machine == ARM)
        return [{"mcpu": name} for name in (*names, "native")]

    def varied_settings(self, processor: Processor) -> list[Options]:
        switches = ("tirx.disable_vectorize", "tirx.disable_cse_tir", "tirx.disable_storage_rewrite")
        exact = [name for name in TRANSFORMS if name not in ("ToMixedPrecision", "FastMathTransform")]
        found = [*super().varied_settings(processor), *({"passes": name} for name in exact)]
        return [*found, *({name: "true"} for name in switches)]

    def check_settings(self, settings: Options) -> None:
        import tvm

        known = tvm.transform.PassContext.list_configs()
        for name in settings:
            if name not in known:
                raise DriftlineError(f"TVM's PassContext has no setting {name!r}.{did_you_mean(name, known)}")
        try:
            self.context(settings)
        except Exception as error:
            raise DriftlineError(f"TVM does not take {_spelled(settings)}: {first_line(str(error))}") from error

    def knobs(self, options: Options) -> list[Knob]:
        if ONE_PASS in options:
            return super().knobs(options)
        left = [name for name in PIPELINE if name not in REQUIRED and name not in listed(options, "skip")]
        return [*super().knobs(options), *(Knob("skip", name, "pass") for name in left)]

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        if framework != "onnx":
            return ()
        imports = ("import tvm", "from tvm.relax.frontend.onnx import from_onnx")
        if name := options.get(ONE_PASS):
            text = plain_script(self.tried().get(name))
            return [ScriptCall("compiled(model, inputs)", text, (*imports, *SCRIPT_IMPORTS), ("apache-tvm",))]
        skipped = listed(options, "skip")
        steps = ", ".join(string(step) for name in listed(options, "passes") for step in TRANSFORMS[name])
        parts = {
            "opt": level if (level := option(options, self, "opt")).isdecimal() else string(level),
            "skipping": _SKIPPING.format(names=skipped) if skipped else "",
            "instruments": ", instruments=[Skipping()]" if skipped else "",
            "config": f", config={_typed(own)!r}" if (own := self.own_settings(options)) else "",
            "building": (_TRANSFORMED if steps else _BUILT).format(names=steps, target=_target_text(options)),
        }
        named = {"compiled": _SCRIPT, "prepared": _PREPARED, "compile_once": _ONCE}
        text, prepared, once = (script.format(name=name, **parts) for name, script in named.items())
        return [ScriptCall("compiled(model, inputs)", text, imports, ("apache-tvm",), prepared=prepared, once=once)]

    def settings_text(self, options: Options) -> str:
        own = self.own_settings(options)
        if not options or set(options) - {"opt", *own}:
            return f"tvm.compile(..., target={_target_text(options)})" if set(options) in ({"mcpu"}, {"target"}) else ""
        told = [f"opt_level={options['opt']}"] if "opt" in options else []
        told += [f"config={_typed(own)!r}"] if own else []
        return f"tvm.transform.PassContext({', '.join(told)})"

    def warm(self) -> None:
        import tvm.relax.frontend.onnx  # noqa: F401

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        model = ImportedModel(program.model(), program.example)
        target = tvm_target(options)
        with self.context(options):
            module = model.module()
            if name := options.get(ONE_PASS):
                return model.plainly_built(module, [] if name == NO_PASS else [self.pass_named(name)])
            for name in listed(options, "passes"):
                module = transformed(module, name, target)
            return model.built(module, target)

    def passes(self) -> Sequence[CompilerPass]:
        return listed_passes(self.tried())

    def pass_trials(self, program: OpenedProgram) -> PassTrials:
        return _TvmTrials(self, program)

    def pass_named(self, name: str) -> TvmPass:
        if name not in self.tried():
            raise Unsupported(f"there is no pass {name} that can be tried alone")
        return self.tried()[name]

    def context(self, options: Options, *instruments: Any) -> Any:
        """Return a TVM pass context with the options applied."""
        import tvm

        skipped = frozenset(listed(options, "skip"))
        watching = [*instruments, _skipping(skipped)] if skipped else list(instruments)
        level, config = int(option(options, self, "opt")), _typed(self.own_settings(options))
        return tvm.transform.PassContext(opt_level=level, instruments=watching, config=config)

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or bool(_REJECTIONS.search(str(error)))


class ImportedModel:
    """An ONNX model imported into TVM, with the sizes of an example."""

    def __init__(self, model: Any, example: Arrays) -> None:
        self._model = model
        constants = {tensor.name for tensor in self._model.graph.initializer}
        self._inputs = [value.name for value in self._model.graph.input if value.name not in constants]
        self._outputs = [value.name for value in self._model.graph.output]
        self._shapes = {name: list(example[name].shape) for name in self._inputs}
        self._dtypes = {name: example[name].dtype.name for name in self._inputs}

    def module(self) -> Any:
        from tvm.relax.frontend.onnx import from_onnx

        return from_onnx(self._model, shape_dict=self._shapes, dtype_dict=self._dtypes)

    def built(self, module: Any, target: str = "llvm") -> Compiled:
        """Compile the module with the default pipeline."""
        import tvm

        return self._runnable(tvm.compile(module, target=tvm.target.Target(target)))

    def plainly_built(self, module: Any, passes: Sequence[TvmPass]) -> Compiled:
        """Compile the module with the plain pipeline and these additional passes."""
        return self._runnable(plain_executable(module, passes))

    def _runnable(self, executable: Any) -> Compiled:
        import tvm
        from tvm import relax

        machine = relax.VirtualMachine(executable, tvm.cpu())
        inputs, outputs = self._inputs, self._outputs

        def bare(arrays: Arrays) -> Callable[[], object]:
            given = [tvm.runtime.tensor(np.asarray(arrays[name], order="C")) for name in inputs]
            return partial(machine["main"], *given)

        def run(arrays: Arrays) -> Arrays:
            result: Any = bare(arrays)()
            results = [result] if len(outputs) == 1 else list(result)
            return {name: _to_array(value) for name, value in zip(outputs, results, strict=True)}

        return Runnable(run, bare)


class _TvmTrials(PassTrials):
    """A module at every stage of the plain pipeline, so that changes by a pass are detected without compiling."""

    together = True
    backend: Tvm

    def __init__(self, backend: Tvm, program: OpenedProgram) -> None:
        super().__init__(backend, program)
        self._model = ImportedModel(program.model(), program.example)
        with backend.context({}):
            self._module = self._model.module()
        self._stages = PlainStages(self._module)

    def changes(self, name: str) -> bool:
        with self.backend.context({}):
            return self._stages.changed_by(self.backend.pass_named(name))

    def compiled(self, names: Sequence[str]) -> Compiled:
        with self.backend.context({}):
            return self._model.plainly_built(self._module, [self.backend.pass_named(name) for name in names])


def tvm_target(options: Options) -> str:
    """Return the options' target in TVM's format. By default TVM compiles for an old processor."""
    cpu = options.get("mcpu")
    if cpu == "native":
        from tvm.target import codegen

        cpu = codegen.llvm_get_system_cpu()
    return json.dumps({"kind": "llvm", "mcpu": cpu}) if cpu else read_target(options.get("target", "llvm"))


def _target_text(options: Options) -> str:
    """Return the target as Python code, for a script."""
    if options.get("mcpu") == "native":
        return 'tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})'
    told = tvm_target(options)
    return f"tvm.target.Target({json.loads(told)!r})" if told.startswith("{") else string(told)


def _typed(settings: Options) -> dict[str, Any]:
    """Convert values to the types that TVM expects: JSON where they parse, else text."""
    values: dict[str, Any] = {}
    for name, text in settings.items():
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    return values


def _spelled(settings: Options) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def transformed(module: Any, name: str, target: str = "llvm") -> Any:
    """Return the module after a transform of the table."""
    import tvm
    from tvm import relax

    with tvm.target.Target(target):
        for step in TRANSFORMS[name]:
            module = getattr(relax.transform, step)()(module)
    return module


def _skipping(names: frozenset[str]) -> Any:
    import tvm

    @tvm.instrument.pass_instrument
    class Skipping:
        def should_run(self, module: Any, information: Any) -> bool:
            return information.name not in names

    return Skipping()


def _to_array(value: Any) -> Array:
    """Return a result as an array: what a model computes from shapes alone is an integer or a tuple of integers."""
    if hasattr(value, "numpy"):
        return value.numpy()  # type: ignore[no-any-return]
    return np.array(value if isinstance(value, int) else tuple(value), np.int64)
