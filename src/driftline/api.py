"""`driftline.check(model, inputs)`: the command line's check, for live objects."""

from __future__ import annotations

import atexit
import contextlib
import inspect
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack, runtime_checkable

from driftline.campaign.across import IsaFamily, check_way, require_families
from driftline.campaign.pairing import with_matrices
from driftline.campaign.session import check_program, check_strategy, choose_targets
from driftline.causes import Library
from driftline.checking.accept import parse_accept
from driftline.checking.checker import Checker, Skipped
from driftline.checking.open import LoadedProgram, open_program
from driftline.checking.result import CheckResult
from driftline.core.case import CheckOptions
from driftline.core.config import default_store
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.target import Target, parse_targets
from driftline.core.text import first_line
from driftline.events import Listener, ignore
from driftline.execute.pool import Pool
from driftline.inputs.sizes import Sizes
from driftline.oracle.choice import parse_oracle
from driftline.programs.archive_scan import trusting
from driftline.programs.live import LiveProgram
from driftline.store import Store

_checker: Checker | None = None


@runtime_checkable
class Openable(Protocol):
    """What can write itself down for workers, as a program that a property test drew can."""

    def open(self, pool: Pool, options: CheckOptions) -> LoadedProgram: ...


class CheckSettings(TypedDict, total=False):
    """What a check can be asked for; `check` explains each, and what is left out has its default there."""

    targets: Sequence[str] | None
    inputs: str
    samples: int
    dims: Mapping[str, int | Sequence[int]] | None
    shapes: Mapping[str, Sequence[int] | Sequence[Sequence[int]]] | None
    grad: bool
    seed: int
    timeout: float
    signed_zero: bool
    lift: bool | None
    oracle: str
    accept: Sequence[str]
    stress: bool
    across: str
    pairwise: bool


def check(
    program: Any,
    example: Any = None,
    *,
    targets: Sequence[str] | None = None,
    inputs: str = "example",
    samples: int = 1,
    dims: Mapping[str, int | Sequence[int]] | None = None,
    shapes: Mapping[str, Sequence[int] | Sequence[Sequence[int]]] | None = None,
    grad: bool = False,
    seed: int = 0,
    store: str | Path | None = None,
    plugins: Sequence[str] = (),
    timeout: float = 300.0,
    signed_zero: bool = False,
    lift: bool | None = None,
    oracle: str = "shadow",
    accept: Sequence[str] = (),
    stress: bool = False,
    across: str = "",
    pairwise: bool = False,
) -> CheckResult:
    """Run a program on many compilers and say which of them is wrong.

    `program` is an nn.Module or torch function with `example` inputs (a tuple or dict), an ONNX ModelProto, or the text
    that the command line takes: "model.onnx", "model.pt2", "model.pt", "file.py:name". Workers stay warm between calls.

    `dims` and `shapes` say how large inputs to make, as `--dim` and `--shape` do: `dims={"batch": 2, "seq": [16, 33]}`
    for dimensions that the program leaves open and names, `shapes={"x": (2, 8)}` (or a list of shapes) for an input by
    its name. Several sizes are one sample each.

    `lift`: check a half-precision program in float32, too; by default unless it is large.

    `accept` says which less precise arithmetic is good enough: "half-accumulation", "onnxruntime=requantise". A row
    that agrees only under such arithmetic has the judgement `reduced-precision`, or passes if it is accepted. No
    project file is read. `stress`: several threads call a compiled program at the same time, too.

    `pairwise`: the result has all targets against each other, too (`result.pairwise`). `across="isa"`: each compiler
    runs on every instruction set of this machine that it can be told to use, and `result.across` compares those.
    """
    with Store.create(Path(store) if store else default_store()) as kept:
        return check_with(
            shared_checker(),
            kept,
            program,
            example,
            plugins=plugins,
            targets=targets,
            inputs=inputs,
            samples=samples,
            dims=dims,
            shapes=shapes,
            grad=grad,
            seed=seed,
            timeout=timeout,
            signed_zero=signed_zero,
            lift=lift,
            oracle=oracle,
            accept=accept,
            stress=stress,
            across=across,
            pairwise=pairwise,
        )


def check_with(
    checker: Checker,
    store: Store,
    program: Any,
    example: Any = None,
    *,
    plugins: Sequence[str] = (),
    listener: Listener = ignore,
    library: Library | None = None,
    **given: Unpack[CheckSettings],
) -> CheckResult:
    """The same with workers and a store that are open."""
    load_plugins(plugins)
    targets, strategy, oracle = given.get("targets"), given.get("inputs", "example"), given.get("oracle", "shadow")
    check_strategy(strategy)
    parse_oracle(oracle)
    sizes = Sizes.of(given.get("dims") or {}, given.get("shapes") or {})
    wanted = [target for text in targets for target in parse_targets(text)] if targets is not None else None
    options = CheckOptions(
        grad=given.get("grad", False),
        seed=given.get("seed", 0),
        timeout=given.get("timeout", 300.0),
        signed_zero=given.get("signed_zero", False),
        oracle=oracle,
        plugins=tuple(str(Path(p).resolve()) for p in plugins),
        accept=parse_accept(given.get("accept", ()), "accept"),
        stress=given.get("stress", False),
    )
    across = given.get("across", "")
    if across:
        check_way(across)
    opened = open_live(program, example, checker.pool, options, sizes)
    families: list[IsaFamily] = []
    left_out: list[str] = []
    missing: list[Skipped] = []
    if across:
        chosen, missing = choose_targets(opened.runs, wanted)
        families, told = require_families(chosen)
        left_out = [told] if told else []
        wanted = [target for family in families for target in family.members]
    result = check_program(
        checker,
        store,
        opened,
        targets=_unique(wanted),
        inputs=strategy,
        samples=given.get("samples", 1),
        sizes=sizes,
        options=options,
        lifted=given.get("lift"),
        listener=listener,
        library=library,
    )
    outcome = replace(result.outcome, skipped=(*result.outcome.skipped, *missing))
    result = replace(result, outcome=outcome, notes=(*result.notes, *left_out))
    return with_matrices(store, result, all_targets=given.get("pairwise", False), families=families)


def _unique(targets: list[Target] | None) -> list[Target] | None:
    return None if targets is None else list(dict.fromkeys(targets))


def shared_checker() -> Checker:
    """Workers for the rest of this process, which stay warm between calls."""
    global _checker
    if _checker is None:
        pool = Pool()
        _checker = Checker(pool)
        atexit.register(pool.close)
    return _checker


def open_live(program: Any, example: Any, pool: Pool, options: CheckOptions, sizes: Sizes) -> LoadedProgram:
    """Anything that `check` takes for a program, written down so that workers can run it."""
    if isinstance(program, (str, Path)):
        return open_program(str(program), pool, options, sizes)
    if isinstance(program, Openable):
        return program.open(pool, options)
    with tempfile.TemporaryDirectory() as folder:
        if type(program).__module__.startswith("onnx"):
            path = Path(folder) / "model.onnx"
            path.write_bytes(program.SerializeToString())
        else:
            path = Path(folder) / "model.pt2"
            _export(program, example, path, sizes)
        with trusting():  # what is in the file is the caller\'s own
            return open_program(str(path), pool, options)


def _export(model: Any, example: Any, path: Path, sizes: Sizes) -> None:
    """Write a live torch model down, so that other processes can run it and the store can keep it."""
    torch = sys.modules.get("torch")
    if torch is None or not callable(model):
        raise DriftlineError(
            f"driftline.check cannot take a {type(model).__name__}: give an nn.Module or torch function with example"
            " inputs, an ONNX model, or the name of a factory as in 'file.py:make' (TensorFlow and JAX programs, too)."
        )
    if example is None:
        raise DriftlineError("driftline.check needs example inputs for a live model: check(model, (x,)).")
    module = model
    if not isinstance(model, torch.nn.Module):

        class Function(torch.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, *args: Any, **kwargs: Any) -> Any:
                return model(*args, **kwargs)

        with contextlib.suppress(TypeError, ValueError):  # inputs go by the names that the function has for them
            own = inspect.signature(model)
            first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
            Function.forward.__signature__ = own.replace(parameters=[first, *own.parameters.values()])  # type: ignore[attr-defined]
        module = Function()
    args, kwargs = ((), example) if isinstance(example, dict) else (tuple(example), {})
    try:
        with torch.no_grad():
            exported = torch.export.export(module, args, kwargs, dynamic_shapes=_open_shapes(model, example, sizes))
            torch.export.save(exported, str(path))
    except Exception as error:
        raise DriftlineError(
            f"The model cannot be captured by torch.export ({type(error).__name__}: {first_line(str(error))})."
            " Put it into a file and pass 'file.py:make', where make() returns (model, inputs)."
        ) from error


def _open_shapes(model: Any, example: Any, sizes: Sizes) -> Any:
    """What torch.export is to leave open of the inputs whose shapes are asked for: all that the model does not fix."""
    torch = sys.modules["torch"]
    given = LiveProgram.bind("torch", model, example).arguments
    axes = {
        name: dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) if name in sizes.shapes else None
        for name, value in given.items()
        if isinstance(value, torch.Tensor)
    }
    if not sizes.shapes or len(axes) < len(given):  # nested arguments stay as they are
        return None
    return axes if isinstance(example, dict) else tuple(axes.values())
