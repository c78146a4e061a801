"""How a vendor plugs a device in: what it can do, and one method that compiles a graph.

    @register_accelerator
    class MyChip(AcceleratorAdapter):
        name = "mychip"
        capabilities = AcceleratorCapabilities(dtypes=("float32",), alignment=8)

        def compile(self, module, inputs):
            return my_compiler(module)  # a callable on tensors

The class is then a backend of `torch.compile` (`MyChip.backend()`), a target of Driftline (`--targets mychip --plugin
file.py`), can be hunted, and runs in the conformance suite. Graphs that the capabilities do not cover never reach
`compile`: in PyTorch they run as they are, with a warning; in Driftline such a program is rejected.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from driftline.backends import BACKENDS
from driftline.backends._dynamo import compile_with_dynamo
from driftline.backends._torch import TorchBackend
from driftline.backends.base import Compiled, Options, Unsupported
from driftline.core.errors import DriftlineError, chain
from driftline.core.script_call import ScriptCall
from driftline.core.target import is_backend_name
from driftline.core.tracker import Tracker
from driftline.hardware.constraint import Constraint
from driftline.hardware.constraints.dtype import DtypeConstraint
from driftline.hardware.constraints.layout import LayoutConstraint
from driftline.hardware.constraints.limits import LimitsConstraint, ReductionConstraint
from driftline.hardware.constraints.memory import MemoryConstraint, PeakMemoryConstraint
from driftline.hardware.constraints.operators import OperatorConstraint
from driftline.hardware.constraints.shape import ShapeConstraint
from driftline.hardware.profile import Profile
from driftline.hardware.violation import ConstraintWarning, Violation
from driftline.programs.opened import OpenedProgram

ATEN, TORCH = "aten", "torch"


@dataclass(frozen=True)
class AcceleratorCapabilities:
    """The capabilities of a device. Unset fields mean no limit; `constraints` are for limits without a field."""

    dtypes: tuple[str, ...] = ()  # names, or torch's own dtypes
    alignment: int = 1  # sizes must be multiples of this
    aligned_dims: tuple[int, ...] | None = None  # in these dimensions; None: in all
    operators: tuple[str, ...] = ()  # the only ones it has; names may hold `*`
    denied_operators: tuple[str, ...] = ()
    max_tensor_bytes: int | None = None
    memory_bytes: int | None = None  # of everything that is live at once
    memory_formats: tuple[str, ...] = ()
    max_rank: int | None = None
    max_dim: int | None = None
    max_reduction: int | None = None
    training: bool = False  # it takes backward graphs too
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        for name in ("dtypes", "operators", "denied_operators", "memory_formats"):
            if isinstance(value := getattr(self, name), str):  # whose letters would be taken for names
                raise DriftlineError(f"AcceleratorCapabilities: {name} is several names: write {name}=({value!r},).")
        if not isinstance(self.alignment, int) or self.alignment < 1:
            told = "sizes are multiples of it, so it is a whole number of at least 1"
            raise DriftlineError(f"AcceleratorCapabilities: alignment={self.alignment!r}; {told}.")
        several = isinstance(self.constraints, Sequence)
        if not several or not all(isinstance(one, Constraint) for one in self.constraints):
            raise DriftlineError("AcceleratorCapabilities: constraints is a list of objects of class Constraint.")

    def profile(self, name: str) -> Profile:
        """Return the capabilities as a strict hardware profile."""
        found: list[Constraint] = []
        if self.operators or self.denied_operators:
            found.append(OperatorConstraint(denied=self.denied_operators, allowed=self.operators))
        if self.dtypes:
            found.append(DtypeConstraint(allowed_dtypes=self.dtypes))
        if self.alignment > 1:
            found.append(ShapeConstraint(alignment=self.alignment, dims=self.aligned_dims))
        if self.max_rank or self.max_dim:
            found.append(LimitsConstraint(max_rank=self.max_rank, max_dim=self.max_dim))
        if self.max_reduction:
            found.append(ReductionConstraint(max_length=self.max_reduction))
        if self.max_tensor_bytes:
            found.append(MemoryConstraint(max_bytes=self.max_tensor_bytes))
        if self.memory_bytes:
            found.append(PeakMemoryConstraint(max_bytes=self.memory_bytes))
        if self.memory_formats:
            found.append(LayoutConstraint(formats=self.memory_formats))
        return Profile(name, (*found, *self.constraints), strict=True)


class AcceleratorAdapter:
    """Base class of a vendor's adapter: a subclass defines `name`, `capabilities` and `compile`."""

    name: ClassVar[str]
    capabilities: ClassVar[AcceleratorCapabilities] = AcceleratorCapabilities()
    graph: ClassVar[str] = ATEN  # the graphs that `compile` is given: of ATen (functional), or Dynamo's ("torch")
    module: ClassVar[str] = "torch"  # the module that must be importable
    distribution: ClassVar[str] = "torch"  # the package that carries the version
    install: ClassVar[str] = ""
    arithmetic: ClassVar[str] = ""  # declared deviations from IEEE arithmetic, such as "tf32"
    tracker: ClassVar[Tracker] = Tracker()

    def compile(self, module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile an FX graph module; the result takes the graph's inputs and returns its outputs."""
        raise NotImplementedError

    def is_rejection(self, error: BaseException) -> bool:
        """True if this error of `compile` means "not supported", and is therefore no finding."""
        return isinstance(error, (Unsupported, NotImplementedError))

    @classmethod
    def backend(cls) -> Callable[..., Any]:
        """Return a backend for `torch.compile(model, backend=MyChip.backend())`."""
        _require_complete(cls)
        adapter = cls()

        def fall_back(module: Any, found: Sequence[Violation]) -> Any:
            warnings.warn(
                ConstraintWarning(f"{cls.name} runs a graph in PyTorch: {_told(found)}"),
                stacklevel=2,
            )
            return module.forward

        return _lowering(adapter, fall_back)

    @classmethod
    def driftline_backend(cls) -> type[TorchBackend]:
        """Return the adapter as a Driftline backend class."""
        _require_complete(cls)
        members = {
            "name": cls.name, "adapter": cls, "module": cls.module, "distribution": cls.distribution,
            "install": cls.install or f"pip install {cls.distribution}", "arithmetic": cls.arithmetic,
            "gradients": cls.capabilities.training, "tracker": cls.tracker, "__doc__": cls.__doc__,
            "__module__": cls.__module__,
        }  # fmt: skip
        return type(cls.__name__, (_AdapterBackend,), members)


class _AdapterBackend(TorchBackend):
    adapter: ClassVar[type[AcceleratorAdapter]]
    preset = "default"
    rungs = ("eager", "aot_eager")

    def warm(self) -> None:
        import importlib

        importlib.import_module("torch")
        super().warm()

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        home = self.adapter.__module__
        if framework != "torch" or home.startswith("driftline_plugin_"):  # a file by path, which a script cannot import
            return ()
        name = self.adapter.__name__
        call = f"torch.compile(function, backend={name}.backend())"
        return [ScriptCall(call, imports=(f"from {home} import {name}",), packages=(self.distribution, "driftline"))]

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        def refuse(module: Any, found: Sequence[Violation]) -> Any:
            raise Unsupported(_told(found))

        import torch._dynamo.exc

        try:
            return compile_with_dynamo(program, _lowering(self.adapter(), refuse), options)
        except torch._dynamo.exc.BackendCompilerFailed as error:  # report the error of the vendor's compiler
            raise error.inner_exception from error

    def is_rejection(self, error: BaseException) -> bool:
        """True if any error of the chain means "not supported": Dynamo wraps what a backend raises."""
        own = self.adapter()
        causes = [inner for one in chain(error, context=True) for inner in (one, getattr(one, "inner_exception", None))]
        return any(
            one is not None and (super(_AdapterBackend, self).is_rejection(one) or own.is_rejection(one))
            for one in causes
        )


A = TypeVar("A", bound=type[AcceleratorAdapter])


def register_accelerator(cls: A) -> A:
    """Class decorator: register the device as a target of Driftline under its name."""
    BACKENDS.register(getattr(cls, "name", ""), cls.driftline_backend())
    return cls


def _require_complete(cls: type[AcceleratorAdapter]) -> None:
    """Raise if an adapter has a mistake. Otherwise it would seem to support no graph, since the base class's `compile`
    refuses all."""
    name = getattr(cls, "name", "")
    if not name:
        raise DriftlineError(f"{cls.__name__} has no name; set the class attribute `name`.")
    if not (isinstance(name, str) and is_backend_name(name)):
        told = "use letters, digits, '.', '-' and '_', and begin with a letter"
        raise DriftlineError(f"{cls.__name__}.name = {name!r} cannot be a target; {told}.")
    if cls.compile is AcceleratorAdapter.compile:
        raise DriftlineError(f"{cls.__name__} has no method compile(self, module, inputs).")
    if inspect.isabstract(cls):
        raise DriftlineError(f"{cls.__name__} is abstract; register a class that has all its methods.")
    try:
        inspect.signature(cls).bind()
    except TypeError as error:
        raise DriftlineError(f"{cls.__name__}() must work without arguments: {error}.") from None
    if cls.graph not in (ATEN, TORCH):
        raise DriftlineError(f"{cls.__name__}.graph = {cls.graph!r} is not valid; it is {ATEN!r} or {TORCH!r}.")
    if not isinstance(cls.capabilities, AcceleratorCapabilities):
        raise DriftlineError(f"{cls.__name__}.capabilities must be AcceleratorCapabilities(...).")
    try:
        cls.capabilities.profile(name)  # raises for values that are no dtype, size or memory format
    except ValueError as error:
        raise DriftlineError(f"{cls.__name__}.capabilities: {str(error).removesuffix('.')}.") from None


def _lowering(adapter: AcceleratorAdapter, otherwise: Callable[[Any, Sequence[Violation]], Any]) -> Callable[..., Any]:
    """Return a backend of `torch.compile`: graphs within the capabilities go to the adapter, others to `otherwise`."""
    profile = adapter.capabilities.profile(adapter.name)

    def lower(module: Any, inputs: Sequence[Any], name: str) -> Any:
        from driftline.hardware.fx_facts import facts_of

        found = [one for graph in facts_of(module, name) for one in profile.violations(graph)]
        return otherwise(module, found) if found else adapter.compile(module, inputs)

    def backend(module: Any, inputs: Sequence[Any], **_: Any) -> Any:
        if adapter.graph == TORCH:
            return lower(module, inputs, "graph")
        from driftline.hardware.lowering import lower_by_aot

        def backward(graph: Any) -> Any:
            if not adapter.capabilities.training:
                return graph.forward  # it runs in PyTorch
            return lower(graph, _examples(graph), "backward graph")

        return lower_by_aot(module, inputs, lambda g: lower(g, _examples(g), "graph"), backward)

    return backend


def _told(found: Sequence[Violation]) -> str:
    """Describe the first violation with its source line, and the number of violations."""
    first = found[0]
    place = f"{first.source}: " if first.source else ""
    return f"{place}{first} [violations: {len(found)}]"


def _examples(module: Any) -> list[Any]:
    """Return the example inputs of a graph that AOTAutograd made."""
    return [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
