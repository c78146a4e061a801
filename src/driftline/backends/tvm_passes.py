"""TVM's passes one at a time: the plain pipeline, and the place of each pass in it.

The plain pipeline has only the passes without which a program does not run. One additional pass must not change the
program's results. A pass goes where TVM's own pipeline has it; a pass of no pipeline goes where its input has the form
that it expects (`_PLACES`). Passes that cannot be tried in this way have a reason (`untried_reason`), and are no
findings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driftline.backends.base import CompilerPass
from driftline.backends.tvm_names import PIPELINE, TRANSFORMS

RELAX, TENSOR_IR = "Relax", "TensorIR"

# Relax to calls of TensorIR functions, in the order of the default pipeline.
PLAIN_RELAX = tuple(
    """
    DispatchSampling DispatchSortScan LegalizeOps ToNonDataflow RemovePurityChecking CallTIRRewrite LowerAllocTensor
    LowerRuntimeBuiltin ComputePrimValue VMShapeLower AttachGlobalSymbol
    """.split()
)
# TensorIR to what LLVM takes. What lowers vector loops and small floats does nothing where there are none.
PLAIN_TENSOR_IR = tuple(
    """
    s_tir.LowerInitBlock s_tir.ConvertBlocksToOpaque s_tir.LowerMatchBuffer s_tir.LowerOpaqueBlock tirx.FlattenBuffer
    tirx.BF16ComputeLegalize tirx.VectorizeLoop tirx.FP8ComputeLegalize tirx.AnnotateEntryFunc tirx.SplitHostDevice
    tirx.MakePackedAPI tirx.FP8StorageLegalize tirx.BF16StorageLegalize
    """.split()
)
# LLVM's own optimisations are not under test, and take most of the compile time.
PLAIN_TARGET = {"kind": "llvm", "opt-level": 0}
PLAIN_HOST = ("tirx.LowerTVMBuiltin", "tirx.LowerIntrin")
_PLAIN = frozenset((*PLAIN_RELAX, *PLAIN_TENSOR_IR, *PLAIN_HOST, "tirx.BindTarget"))

# Passes of no default pipeline, with the step of the plain pipeline after which they run; "": before all steps.
_PLACES = {
    "AttachAttrLayoutFreeBuffers": "LegalizeOps",
    "AnnotateTIROpPattern": "LegalizeOps",
    "FoldConstant": "LegalizeOps",
    "FuseOps": "LegalizeOps",
    "SpecializePrimFuncBasedOnCallSite": "LegalizeOps",
    "s_tir.ConvertSSA": "tirx.FlattenBuffer",
    "s_tir.HoistExpression": "tirx.FlattenBuffer",
    "s_tir.InstrumentBoundCheckers": "tirx.FlattenBuffer",
    "s_tir.RemoveStoreUndef": "tirx.FlattenBuffer",
    "s_tir.RemoveWeightLayoutRewriteBlock": "",
    "s_tir.UseAssumeToReduceBranches": "",
    "tirx.ConvertSSA": "tirx.FlattenBuffer",
    "tirx.InlinePrivateFunctions": "",
    "tirx.PointerValueTypeRewrite": "tirx.FlattenBuffer",
    "tirx.RemoveAssume": "tirx.FlattenBuffer",
    "tirx.SkipAssert": "tirx.BF16StorageLegalize",
    **dict.fromkeys(
        """
        ConvertLayout DecomposeOpsForTraining ExpandTupleArguments NormalizeGlobalVar RealizeVDevice
        RemoveUnusedParameters
        """.split(),
        "",
    ),
}
# The passes that must run before a pass, and those that complete its work.
_BEFORE = {"FuseOps": ("AnnotateTIROpPattern",)}
_AFTER = {"FuseOps": ("FuseTIR",)}
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "ConvertLayout": ({"relax.nn.conv2d": ["NHWC", "OHWI"]},),
    "s_tir.ThreadSync": ("shared",),
    "tirx.NarrowDataType": (32,),
}

_NOT_EXACT = "computes with less precision by design"
_SIGNATURE = "changes what the function takes or gives, by design"
_MEANING = "makes another program, by design"
_ARGUMENT = "needs arguments that say what to do"
_GPU = "only for GPUs and other accelerators"
_LIBRARY = "only with a code generator or library of another maker"
_CHECK = "checks the module and changes nothing"
_THREADS = "only where a schedule binds threads or copies to shared memory, as for GPUs"
_TILES = "only for programs of tile primitives, which no importer makes"
_UNTRIED = {
    **dict.fromkeys(("FastMathTransform", "ToMixedPrecision"), _NOT_EXACT),
    **dict.fromkeys(
        ("BundleModelParams", "LazyGetInput", "LazySetOutput", "LazyTransformParams", "LiftTransformParams"), _SIGNATURE
    ),
    **dict.fromkeys(("Gradient",), _MEANING),
    **dict.fromkeys(
        """
        AlterOpImpl AttachExternModules BindParams BindSymbolicVars FuseOpsByPattern MetaScheduleApplyDatabase
        MetaScheduleTuneIRMod MetaScheduleTuneTIR SplitCallTIRByPattern UpdateParamType UpdateVDevice
        tirx.Apply tirx.Filter
        """.split(),
        _ARGUMENT,
    ),
    **dict.fromkeys(
        """
        IPCAllReduceRewrite LowerGPUIPCAllocStorage RewriteCUDAGraph s_tir.DecorateDeviceScope s_tir.DefaultGPUSchedule
        s_tir.InferFragment s_tir.InjectPTXAsyncCopy s_tir.InjectPTXLDG32 s_tir.InjectPermutedLayout
        s_tir.InstrumentProfileIntrinsics s_tir.LowerAsyncDMA s_tir.LowerThreadAllreduce s_tir.LowerVtcmAlloc
        s_tir.MergeSharedMemoryAllocations s_tir.ThreadSync s_tir.TransformMmaBufferLayout s_tir.VerifyVTCMLimit
        tirx.LowerWarpMemory
        """.split(),
        _GPU,
    ),
    **dict.fromkeys(("AllocateWorkspace", "MergeCompositeFunctions", "RunCodegen"), _LIBRARY),
    **dict.fromkeys(
        """
        s_tir.InjectVirtualThread s_tir.LiftThreadBinding s_tir.LowerAutoCopy s_tir.LowerCrossThreadReduction
        s_tir.ManifestSharedMemoryLocalStage s_tir.UnifyThreadBinding
        """.split(),
        _THREADS,
    ),
    **dict.fromkeys(("tirx.LowerTIRx", "tirx.LowerTIRxOpaque", "tirx.TilePrimitiveDispatch"), _TILES),
    "FuseTIR": "tried with FuseOps, whose groups it makes functions of",
    "SplitLayoutRewritePreproc": "only after MetaSchedule has tuned the module",
    "VMBuiltinLower": "the old name of LowerRuntimeBuiltin",
    "tirx.ForceNarrowIndexToInt32": "asks for indices of 32 bits, and the importer makes indices of 64 bits",
    "tirx.VerifyMemory": _CHECK,
}
_IN_EVERY_PLAIN_PIPELINE = "nothing runs without it: there is no program without it to compare with"


@dataclass(frozen=True)
class TvmPass:
    """A pass, and its place in the plain pipeline."""

    name: str  # as TVM's instruments say it: `FuseOps`, `tirx.UnrollLoop`
    level: str  # RELAX or TENSOR_IR
    place: str  # the step of the plain pipeline after which it runs; "": before all steps
    make: Callable[[], Any]  # the pass of TVM

    @property
    def before(self) -> tuple[str, ...]:
        return _BEFORE.get(self.name, ())

    @property
    def after(self) -> tuple[str, ...]:
        return _AFTER.get(self.name, ())

    def steps(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """Return the pass with the passes that must run before and after it, by name, except those in `known`."""
        around = {name: made(name) for name in (*self.before, *self.after) if name not in known}
        before = {name: around[name] for name in self.before if name in around}
        return {**before, self.name: self.make(), **around}


def made(name: str) -> Any:
    """Create the pass of this name. Raises `NotImplementedError` if this release of TVM does not have it."""
    import tvm.relax
    import tvm.s_tir
    import tvm.tirx

    level, _, short = name.rpartition(".")
    homes = {"tirx": [tvm.tirx.transform], "s_tir": [tvm.s_tir.transform]}
    for home in homes.get(level, [tvm.relax.transform, tvm.relax.backend]):
        if hasattr(home, short):
            return getattr(home, short)(*_ARGUMENTS.get(name, ()))
    raise NotImplementedError(f"this release of TVM has no pass {name}")


def level_of(name: str) -> str:
    return TENSOR_IR if "." in name else RELAX


def known_passes() -> dict[str, TvmPass]:
    """Return every pass that can be tried, by name."""
    names = [*PIPELINE, *TRANSFORMS, *_PLACES]
    tried = dict.fromkeys(name for name in names if name not in _UNTRIED and name not in _PLAIN)
    return {name: TvmPass(name, level_of(name), _place(name), lambda name=name: made(name)) for name in tried}  # type: ignore[misc]


def _place(name: str) -> str:
    """Return the step of the plain pipeline after which a pass runs: as in the default pipeline, or by the table."""
    if name in _PLACES or name not in PIPELINE:
        return _PLACES.get(name, "")
    plain = PLAIN_RELAX if level_of(name) == RELAX else PLAIN_TENSOR_IR
    earlier = [step for step in PIPELINE[: PIPELINE.index(name)] if step in plain]
    return earlier[-1] if earlier else ""


def listed_passes(tried: Mapping[str, TvmPass]) -> list[CompilerPass]:
    """Return the passes that are tried, and all others of this TVM release with the reason why not. Called in a
    worker."""
    found = [CompilerPass(one.name, one.level) for one in tried.values()]
    for name in sorted({*_public_names(), *PIPELINE} - tried.keys()):
        found.append(CompilerPass(name, level_of(name), untried_reason(name)))
    return found


def untried_reason(name: str) -> str:
    if name in _PLAIN:
        return _IN_EVERY_PLAIN_PIPELINE
    return _UNTRIED.get(name, "nobody has written down yet what it takes")


def _public_names() -> set[str]:
    """Return the names of passes that TVM's modules offer; functions whose name starts with a capital create passes."""
    import types

    import tvm.relax
    import tvm.s_tir
    import tvm.tirx

    homes = {"": tvm.relax.transform, "tirx.": tvm.tirx.transform, "s_tir.": tvm.s_tir.transform}
    makers = types.FunctionType
    return {
        f"{prefix}{name}"
        for prefix, home in homes.items()
        for name, value in vars(home).items()
        if name[:1].isupper() and (isinstance(value, makers) or _is_module_pass(value))
    }


def _is_module_pass(value: Any) -> bool:
    """True for a class wrapped by `tvm.transform.module_pass` or similar; False for the base classes of passes."""
    import tvm.ir.transform

    own = getattr(value, "__module__", "").startswith("tvm.relax.transform.")
    return isinstance(value, type) and own and issubclass(value, tvm.ir.transform.Pass) and "Pass" not in value.__name__


def in_turn(names: Sequence[str], passes: Sequence[TvmPass] = ()) -> Callable[[Any], Any]:
    """Return a function that runs the plain passes of these names in order, with the other passes in their places."""
    steps: dict[str, Any] = {}  # by name: several passes may need the same one before or after them

    def put(place: str) -> None:
        for one in passes:
            if one.place == place:
                steps.update(one.steps(steps))

    put("")
    for name in names:
        steps[name] = made(name)
        put(name)

    def run(module: Any) -> Any:
        for step in steps.values():
            module = step(module)
        return module

    return run


def plain_executable(module: Any, passes: Sequence[TvmPass]) -> Any:
    """Compile a module with the plain pipeline and these additional passes."""
    import tvm

    relax, tensor_ir = ([one for one in passes if one.level == level] for level in (RELAX, TENSOR_IR))
    lowered, target = _registered(tensor_ir), tvm.target.Target(PLAIN_TARGET)
    return tvm.compile(module, target=target, relax_pipeline=in_turn(PLAIN_RELAX, relax), tir_pipeline=lowered)


def plain_functions(module: Any, passes: Sequence[TvmPass]) -> Any:
    """Compile TensorIR functions with their part of the plain pipeline and these additional passes."""
    import tvm

    return tvm.compile(module, target=tvm.target.Target(PLAIN_TARGET), tir_pipeline=_registered(passes))


def _registered(passes: Sequence[TvmPass]) -> str:
    """Register a TensorIR pipeline with these passes, and return its name: TVM accepts pipelines by name only."""
    from tvm.tirx.compilation_pipeline import register_tir_pipeline

    lowered = in_turn(PLAIN_TENSOR_IR, passes)
    register_tir_pipeline(_REGISTERED, lambda: (lowered, _host, _host))
    return _REGISTERED


def _host() -> Callable[[Any], Any]:
    return in_turn(PLAIN_HOST)


_REGISTERED = "driftline.plain"


_STEPS = """\
def steps(names):
    homes = {{"tirx": tvm.tirx.transform, "s_tir": tvm.s_tir.transform}}
    made = []
    for name in names.split():
        level, _, short = name.rpartition(".")
        home = homes.get(level, tvm.relax.transform)
        home = home if hasattr(home, short) else tvm.relax.backend
        made.append(getattr(home, short)(*ARGUMENTS.get(name, ())))
    return lambda module: functools.reduce(lambda module, one: one(module), made, module)


# Nothing runs without these passes; {about}.
ARGUMENTS = {arguments}
TENSOR_IR = steps("{tensor_ir}")
HOST = steps("{host}")
register_tir_pipeline("plain", lambda: (TENSOR_IR, lambda: HOST, lambda: HOST))
"""
_SCRIPT = """\
RELAX = steps("{relax}")


def compiled(model, inputs):
    module = from_onnx(model, {{name: x.shape for name, x in inputs.items()}})
    target = tvm.target.Target({target})
    built = tvm.compile(module, target=target, relax_pipeline=RELAX, tir_pipeline="plain")
    result = tvm.relax.VirtualMachine(built, tvm.cpu())["main"](*map(tvm.runtime.tensor, inputs.values()))
    return [part.numpy() for part in ([result] if hasattr(result, "numpy") else result)]
"""
SCRIPT_IMPORTS = ("import functools", "from tvm.tirx.compilation_pipeline import register_tir_pipeline")


def plain_script(one: TvmPass | None) -> str:
    """Return the plain pipeline with one more pass, as a user would write it."""
    relax = _written(PLAIN_RELAX, RELAX, [one] if one else [])
    return plain_steps([one] if one else []) + _SCRIPT.format(relax=relax, target=PLAIN_TARGET)


def plain_steps(passes: Sequence[TvmPass]) -> str:
    """Return the TensorIR part of the script, which registers the pipeline `plain`. The last pass is the one under
    test."""
    return _STEPS.format(
        about=f"{passes[-1].name} is the one that is tried" if passes else "no other is tried",
        arguments={one.name: _ARGUMENTS[one.name] for one in passes if one.name in _ARGUMENTS},
        tensor_ir=_written(PLAIN_TENSOR_IR, TENSOR_IR, passes),
        host=" ".join(PLAIN_HOST),
    )


def _written(names: Sequence[str], level: str, passes: Sequence[TvmPass]) -> str:
    """Return the pass names of a plain pipeline, with these passes in their places."""
    told = {"": ""} | {name: name for name in names}
    for one in passes:
        if one.level == level:
            told[one.place] = " ".join((told[one.place], *one.before, one.name, *one.after))
    return " ".join(told.values()).strip()


class PlainStages:
    """A module at the stages of the plain pipeline, each computed once. A module of TensorIR functions alone begins at
    the second level. `always` are passes that it needs."""

    def __init__(self, module: Any, level: str = RELAX, always: Sequence[TvmPass] = ()) -> None:
        import tvm

        self._target = tvm.target.Target(PLAIN_TARGET)
        self._always = always
        self._kept: dict[tuple[str, str], Any] = {}
        self._kept[level, ""] = module if level == RELAX else self._functions(module)

    def changed_by(self, one: TvmPass) -> bool:
        """True if the pass itself changes the module; changes by passes that must run before it do not count."""
        import tvm_ffi

        with self._target:
            before = self._at(one.level, one.place)
            for name in one.before:
                before = made(name)(before)
            return not tvm_ffi.structural_equal(before, one.make()(before))

    def flattened(self) -> list[Any]:
        """Return the TensorIR functions, lowered to loops over one-dimensional buffers."""
        with self._target:
            return list(self._at(TENSOR_IR, "tirx.FlattenBuffer").functions.values())

    def _at(self, level: str, place: str) -> Any:
        if (level, place) not in self._kept:
            steps = PLAIN_RELAX if level == RELAX else PLAIN_TENSOR_IR
            if place:
                earlier = steps[: steps.index(place)]
                found = made(place)(self._at(level, earlier[-1] if earlier else ""))
                for one in self._always:
                    found = one.make()(found) if (one.level, one.place) == (level, place) else found
                self._kept[level, place] = found
            else:
                self._kept[level, place] = self._functions(self._at(RELAX, PLAIN_RELAX[-1]))
        return self._kept[level, place]

    def _functions(self, module: Any) -> Any:
        """Return a module of the TensorIR functions alone, bound to the target, as `tvm.compile` extracts them."""
        import tvm
        from tvm.tirx import PrimFunc
        from tvm.tirx.transform import BindTarget

        functions = {name: body for name, body in module.functions.items() if isinstance(body, PrimFunc)}
        return BindTarget(self._target.with_host(self._target))(tvm.IRModule(functions))
