"""The base class of backends: a compiler, described in one short class.

A backend file must import without its compiler: the parent process reads names, forms and options from it, and only a
worker calls `warm`, `probe` and `compile`.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from driftline.backends.knobs import Knob
from driftline.core.errors import DriftlineError
from driftline.core.packages import Installing, extra_command
from driftline.core.processor import Processor
from driftline.core.rule import NO_PASS, ONE_PASS
from driftline.core.script_call import ScriptCall
from driftline.core.tensors import Arrays
from driftline.core.text import did_you_mean, first_line
from driftline.core.tracker import Tracker
from driftline.programs.opened import OpenedProgram

Compiled = Callable[[Arrays], Arrays]  # it may have more to tell: `bare_call`, `compiled_facts`
CompiledTogether = Callable[[Sequence[Arrays]], list[Arrays]]
Options = Mapping[str, str]


@dataclass(frozen=True)
class CompiledFacts:
    """Facts about a compiled program, as far as its compiler reports them."""

    graphs: int | None = None
    breaks: tuple[str, ...] = ()  # why the program was cut into several graphs
    violations: int | None = None  # nodes that a hardware profile does not allow


def compiled_facts(compiled: Compiled) -> CompiledFacts:
    """Return the attribute `facts` of a compiled program, or empty facts if it has none."""
    found: CompiledFacts = getattr(compiled, "facts", CompiledFacts())
    return found


@dataclass(frozen=True)
class Runnable:
    """A possible result of `compile`: `run` is a call on arrays; `bare` converts arrays and returns a call that can be
    timed without the conversions."""

    run: Compiled
    bare: Callable[[Arrays], Callable[[], object]]

    def __call__(self, arrays: Arrays) -> Arrays:
        return self.run(arrays)


def bare_call(compiled: Compiled, arrays: Arrays) -> Callable[[], object]:
    """Return a call with its inputs in place, to be timed. If `compile` returned an object with a method `bare`
    (because calls convert arrays or restore state), that method makes the call."""
    bare: Callable[[Arrays], Callable[[], object]] | None = getattr(compiled, "bare", None)
    return bare(arrays) if bare else partial(compiled, arrays)


class Unsupported(Exception):
    """Raised by a backend that does not support a program: the outcome is REJECTED, never a finding."""


class Blamed(Exception):
    """Raised by the result of `compile_together` if the compiler says which of the programs it does not support."""

    def __init__(self, programs: Collection[int]) -> None:
        super().__init__(f"not these, by their places: {sorted(programs)}")
        self.programs = frozenset(programs)


@dataclass(frozen=True)
class Availability:
    """Whether a backend runs here; if not, the reason and what to do."""

    available: bool
    version: str = ""
    devices: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Option:
    """One option of a target. Without `values` any text is accepted, and the backend itself must check it."""

    help: str
    values: tuple[str, ...] = ()
    default: str = ""
    file: bool = False  # the value may be a file: workers, which run elsewhere, are given its whole path


BOOLEAN = ("true", "false")
BOOLEAN_VALUES = {"true": True, "false": False}
# Every target takes it; the names are checked where they are understood.
ARITHMETIC = Option(
    "arithmetic it declares, joined with '+': tf32, half-accumulation, fast-exp, flush-to-zero, requantise"
)


@dataclass(frozen=True)
class CompilerPass:
    """One pass of a compiler, as the option `pass` names it."""

    name: str
    group: str
    untried: str = ""  # why it is not tried alone; empty if it is tried


# Which of the compiler's own rewrite rules fired on a program, by name
Behaviour = Callable[[OpenedProgram], list[str]]


class Backend:
    """Base class of all backends. A vendor's integration is a subclass with `compile` and a few class attributes."""

    name: ClassVar[str]
    accepts: ClassVar[tuple[str, ...]]  # program forms, best first; `source:<framework>` for live programs
    prefers: ClassVar[str] = ""  # the kind of file that it is given where a model comes in several: `torchscript`
    module: ClassVar[str] = ""  # the module that must be importable
    distribution: ClassVar[str] = ""  # the package that carries the version
    also_in: ClassVar[tuple[str, ...]] = ()  # other packages whose environments carry this compiler
    extra: ClassVar[str] = ""  # the extra of Driftline that brings it, for backends that come with Driftline
    install: ClassVar[str] = ""  # the exact command; default: pip install driftline[extra], or the distribution
    family: ClassVar[str] = ""  # the backend whose warm workers it shares; default: its own
    options: ClassVar[Mapping[str, Option]] = {}
    settings: ClassVar[str] = ""  # a pattern: options with such names are the compiler's own, and are passed on to it
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    gradients: ClassVar[bool] = False  # can compute gradients
    own_random: ClassVar[Mapping[str, str]] = {}  # options with which its random numbers are not those of eager
    mutates: ClassVar[bool] = False  # calls the user's code, so changes to inputs are seen and compared
    arithmetic: ClassVar[str] = ""  # declared deviations from IEEE arithmetic; see oracle/arithmetic.py
    renames_outputs: ClassVar[bool] = False  # outputs come in order, under names of the compiler's own
    threads: ClassVar[bool] = False  # several threads may call one compiled program at the same time
    sizes: ClassVar[bool] = True  # a compiled program runs at other sizes of its inputs, where it has open ones
    recompiles: ClassVar[bool] = False  # when a compiled program is called with inputs of another size
    keeps_code: ClassVar[bool] = False  # on disk, for later processes
    kernels: ClassVar[str] = ""  # the backend that runs operators which this one does not compile
    captures: ClassVar[bool] = False  # starts from the graph of torch.export, which such targets can share
    batch: ClassVar[int] = 20  # how many programs a hunt gives it at a time: some seconds of work
    together: ClassVar[int] = 1  # how many programs `compile_together` takes at best
    # Of a processor, to import what its workers need, by `benchmarks/hunt.py --only starts`. Only the order matters:
    # what is quick is started first, and finds bugs while the others are imported.
    start_seconds: ClassVar[float] = 2.0
    preset: ClassVar[str] = "default"  # the first of quick, default and all that holds it; see presets.py
    reference: ClassVar[bool] = False  # a rung without optimisation, not a compiler under test
    not_hunted: ClassVar[str] = ""  # why a hunt skips it unless it is named
    # Simpler forms, the simplest first: a target, or an option of this one. Default: the lower values of `opt`.
    rungs: ClassVar[tuple[str, ...]] = ()
    settings_words: ClassVar[str] = ""  # how to write its own settings, for messages
    tracker: ClassVar[Tracker] = Tracker()  # where its bugs are reported, in which form
    installing: ClassVar[Mapping[str, Installing]] = {}  # by package, if pip needs more than its name

    def __init__(self) -> None:
        self.family_name = self.family or self.name

    # -- in the parent: nothing here may import the compiler ---------------------------------------------------------

    def installed(self) -> Availability:
        """Check, without importing anything, whether the compiler's package is installed, and in which version."""
        if self.module and importlib.util.find_spec(self.module.partition(".")[0]) is None:
            return Availability(False, reason=f"the package {self.distribution or self.module!r} is not installed")
        return Availability(True, self.version(), self.devices)

    def version(self) -> str:
        for package in self.packages:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                return importlib.metadata.version(package)
        return ""

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages for which `driftline env add` can install versions of this backend."""
        return tuple(dict.fromkeys(name for name in (self.distribution, *self.also_in) if name))

    @property
    def install_command(self) -> str:
        if self.install:
            return self.install
        if self.extra:
            return extra_command(self.extra)
        return f"pip install {self.distribution}" if self.distribution else ""

    def validate(self, options: Options, target: str) -> None:
        """Raise for unknown options and values, with a list of the valid ones."""
        known = {**self.options, "device": Option("where it runs", self.devices), "arithmetic": ARITHMETIC}
        for key, value in options.items():
            if key not in known and self.is_setting(key):
                continue  # the compiler itself knows whether it has this one: `check_settings`
            if key not in known:
                listing = ", ".join(f"{name}={'|'.join(o.values) or '...'}" for name, o in known.items())
                hint = did_you_mean(key, known)
                own = f" {self.settings_words}" if self.settings_words else ""
                raise DriftlineError(
                    f"Target {target!r}: {self.name} has no option {key!r}.{hint} It has: {listing}.{own}"
                )
            values = known[key].values
            if values and value not in values:
                raise DriftlineError(
                    f"Target {target!r}: {key}={value} is not valid.{did_you_mean(value, values)}"
                    f" Valid values: {', '.join(values)}."
                )

    def is_setting(self, name: str) -> bool:
        """True if an option of this name is a setting of the compiler itself."""
        ours = name in self.options or name in ("device", "arithmetic")
        return bool(self.settings and not ours and re.fullmatch(self.settings, name))

    def own_settings(self, options: Options) -> dict[str, str]:
        """Return the options of a target that are settings of the compiler itself."""
        return {key: value for key, value in options.items() if self.is_setting(key)}

    def arithmetic_with(self, options: Options) -> str:
        """Return the arithmetic that the backend declares with these options."""
        return self.arithmetic

    def isa_variants(self, processor: Processor) -> Sequence[Options]:
        """Return options that compile for other instruction sets, each supported by this processor."""
        return ()

    def varied_settings(self, processor: Processor) -> list[Options]:
        """Return the settings that a hunt may vary one at a time (`hunt --settings vary`): other values of options, and
        other instruction sets. Each must leave right programs right."""
        variants = self.isa_variants(processor)
        by_processor = {key for options in variants for key in options}
        declared = {key: known for key, known in self.options.items() if key not in by_processor}
        others = [{key: value} for key, known in declared.items() for value in known.values if value != known.default]
        return [*others, *variants]

    def loop_settings(self) -> tuple[Options, ...]:
        """Return settings that change how loops are generated but not their results; `hunt --settings loops` draws
        several at a time. Each must leave right programs right."""
        return ()

    def variables(self, options: Options) -> Mapping[str, str]:
        """Return environment variables that the process needs from its start, since a compiler reads them only once."""
        return {}

    def told(self, options: Options) -> dict[str, str]:
        """Return the options in the form that a worker gets: files by their absolute path."""
        return {**options, **{key: str(path.resolve()) for key, path in self.files(options).items()}}

    def files(self, options: Options) -> dict[str, Path]:
        """Return the files that options name."""
        named = {key: Path(value) for key, value in options.items() if key in self.options and self.options[key].file}
        return {key: path for key, path in named.items() if path.is_file()}

    def draws_alone(self, options: Options) -> bool:
        """True if the random numbers of a target with these options come from the compiler's own generator."""
        return bool(self.own_random) and self.own_random.items() <= options.items()

    def knobs(self, options: Options) -> list[Knob]:
        """Return what can be switched off for any program: options set to plainer values, options of the target
        removed, and names added to list options. With the option `pass`, that pass is the only knob."""
        if ONE_PASS in self.options and ONE_PASS in options:
            return [Knob(ONE_PASS, NO_PASS)]
        taken = [key for key in options if key in self.options and not self.options[key].default]
        found = [Knob(key, "") for key in (*taken, *self.own_settings(options))]
        for key, declared in self.options.items():
            now = options.get(key, declared.default)
            found += [Knob(key, value, about=declared.help) for value in _plainer(declared.values, now)]
        return found

    def ladder(self) -> tuple[str, ...]:
        """Return the targets or options that `driftline localize` tries before the target itself."""
        level = self.options.get("opt")
        return self.rungs or tuple(f"opt={value}" for value in (_plainer(level.values, level.default) if level else ()))

    def plainest(self, options: Options) -> Options | None:
        """Return the options with the least optimisation; `None` if there are none. A program that compiles and runs
        with these options is supported by the compiler."""
        own = [rung.partition("=")[::2] for rung in self.ladder() if "=" in rung]
        kept = {key: value for key, value in options.items() if key == "device"}
        if ONE_PASS in self.options and ONE_PASS in options:
            return {**kept, ONE_PASS: NO_PASS}
        return {**kept, own[0][0]: own[0][1]} if own else None

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        """Return how a user calls the compiler on a program of this framework (torch, onnx, tensorflow or jax). Of
        several calls the first that shows a bug is printed; without any, reports have no script. A torch program is
        exported for a compiler that accepts ONNX models only."""
        return ()

    def settings_text(self, options: Options) -> str:
        """Return the options as code for the compiler's own users; empty if no switch corresponds to them."""
        return ""

    # -- in a worker -------------------------------------------------------------------------------------------------

    def warm(self) -> None:
        """Import the slow modules. Called once, before workers are forked; must not start threads."""
        if self.module:
            importlib.import_module(self.module)

    def wake_device(self) -> None:
        """Start the GPU driver, if there is one."""
        with contextlib.suppress(OSError):
            ctypes.CDLL("libcuda.so.1").cuInit(0)

    def device_answers(self) -> bool:
        """True if the GPU still works for this process: some errors break it for every later program. A process whose
        backend cannot tell is replaced."""
        return False

    def begin_anew(self) -> None:
        """Forget in-memory state about code cached on disk: the cache folders are empty now."""

    def probe(self) -> Availability:
        """Import the compiler, and return whether and how it can be used."""
        present = self.installed()
        if not present.available:
            return present
        try:
            self.warm()
        except Exception as error:
            return Availability(False, reason=f"its import fails: {type(error).__name__}: {first_line(str(error))}")
        return Availability(True, self.version(), self.find_devices())

    def find_devices(self) -> tuple[str, ...]:
        return self.devices

    def check_settings(self, settings: Options) -> None:
        """Raise a `DriftlineError` if the compiler lacks one of these settings, or a value has the wrong type."""

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        """Compile the program; the result maps named input arrays to named output arrays."""
        raise NotImplementedError

    def fixes_sizes(self, program: OpenedProgram) -> bool:
        """True if the compiled program works only for the sizes of its example; other sizes are then compiled again."""
        return not self.sizes

    def compile_together(
        self, programs: Sequence[OpenedProgram], samples: Sequence[Sequence[Arrays]], options: Options
    ) -> CompiledTogether | None:
        """Compile several programs as one, or return `None` if that is not faster than one by one. Each will be run on
        its own samples.

        If anything goes wrong here, the programs are tried again one by one before anything is reported; raising
        `Blamed` saves the search for the program at fault.
        """
        return None

    def knobs_at_work(self, program: OpenedProgram, options: Options) -> list[Knob]:
        """Return the rules and passes that change this program and can be switched off by name."""
        return []

    def passes(self) -> Sequence[CompilerPass]:
        """Return the compiler's passes, which `driftline passes` tries one at a time. Each is a value of the option
        `pass`, which runs this pass and otherwise only the passes without which nothing runs; `pass=none` runs those
        alone."""
        return ()

    def pass_trials(self, program: OpenedProgram) -> PassTrials:
        """Return an object that tries passes on a program. A backend that can detect changes without compiling saves
        most of the time."""
        return PassTrials(self, program)

    def watching(self) -> contextlib.AbstractContextManager[Behaviour | None]:
        """Watch the compiler inside the block; afterwards the value says which of its rewrite rules fired. `None`: this
        backend cannot tell."""
        return contextlib.nullcontext(None)

    def is_rejection(self, error: BaseException) -> bool:
        """True if this error means "not supported", and is no finding. Any other error of the compiler is a finding."""
        return isinstance(error, (Unsupported, NotImplementedError))


class PassTrials:
    """Tries the passes of a compiler on one program, in a worker. Exceptions of a pass are not caught."""

    together = False  # does `compiled` take several passes?

    def __init__(self, backend: Backend, program: OpenedProgram) -> None:
        self.backend = backend
        self.program = program

    def changes(self, name: str) -> bool:
        """True if this pass changes the program, or if that is unknown."""
        return True

    def compiled(self, names: Sequence[str]) -> Compiled:
        """Compile the program with these passes, and otherwise only those without which nothing runs."""
        return self.backend.compile(self.program, {ONE_PASS: names[0] if names else NO_PASS})


def _plainer(values: tuple[str, ...], now: str) -> tuple[str, ...]:
    """Return the values that do less than `now`: false for true, the other of two, lower ones of a scale."""
    if values == BOOLEAN:
        return ("false",) if now == "true" else ()
    if len(values) == 2:
        return tuple(value for value in values if now and value != now)
    return values[: values.index(now)] if now in values else values[:1]


def each_setting(*entries: str) -> tuple[Options, ...]:
    """Return settings written as `name=value`, each as an options dict of its own."""
    return tuple(dict([entry.split("=")]) for entry in entries)


def option(options: Options, backend: Backend, key: str) -> str:
    """The value of an option, or its default."""
    return options.get(key, backend.options[key].default)
