"""The lab's tasks in workers, where torch is imported and the user's file is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from driftline.backends._torch import TorchCalls, backward, cotangents, placed
from driftline.backends.base import Unsupported
from driftline.core.errors import DriftlineError
from driftline.core.task import Context
from driftline.core.text import first_line
from driftline.inductor.capturing import capture as capturing
from driftline.inductor.guards import GuardInspector
from driftline.inductor.kernel_diff import KernelDiffHarness
from driftline.inductor.lab import Lab
from driftline.inductor.requests import CAPTURE, DIFF, GUARDS, LabAnswer, LabRequest
from driftline.programs.live import is_tensor
from driftline.programs.opened import OpenedProgram


def _told(work: Callable[[LabRequest], LabAnswer]) -> Callable[[LabRequest], LabAnswer]:
    """Decorator: turn a `DriftlineError` (a mistake of the user) into an answer."""

    def told(request: LabRequest) -> LabAnswer:
        try:
            return work(request)
        except DriftlineError as error:
            return LabAnswer(None, str(error))

    return told


@CAPTURE.serve
def capture(request: LabRequest, context: Context) -> LabAnswer:
    return _capture(request)


@GUARDS.serve
def guards(request: LabRequest, context: Context) -> LabAnswer:
    return _guards(request)


@DIFF.serve
def diff(request: LabRequest, context: Context) -> LabAnswer:
    return _diff(request)


@_told
def _capture(request: LabRequest) -> LabAnswer:
    """Compile and run the program on its first sample, with a backward pass if asked for."""
    import torch

    program = _opened(request)
    function = _placed(program, request.device)
    calls = TorchCalls(program, request.device)
    call = calls.prepare(program.example)
    captured = None
    try:
        with capturing(request.case.folder / "lab", name=request.name, reset=True) as captured:
            compiled = torch.compile(function, backend=_backend(request.backend), dynamic=request.dynamic)
            with torch.set_grad_enabled(program.grad):
                result = compiled(*call.args, **call.kwargs)
            if program.grad:
                backward(cotangents(result, program.seed))
    except DriftlineError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {first_line(str(error))}"
        return LabAnswer(captured.folder if captured else None, told)
    return LabAnswer(captured.folder)


@_told
def _guards(request: LabRequest) -> LabAnswer:
    """Call the program once with each sample, and keep what Dynamo did."""
    import torch

    program = _opened(request)
    calls = TorchCalls(program, request.device)
    inspector = GuardInspector(_placed(program, request.device), dynamic=request.dynamic)
    with torch.set_grad_enabled(program.grad):
        for arrays in request.case.samples():
            call = calls.prepare(arrays)
            report = inspector.analyze(*call.args, **call.kwargs)
    run = Lab(request.case.folder / "lab").new_run("guards", request.name)
    run.write_json("guards.json", report.to_json())
    run.write("guards.txt", report.text() + "\n")
    run.finish(graphs=len(report.graphs), breaks=len(report.breaks), recompilations=len(report.recompilations))
    return LabAnswer(run.folder)


@_told
def _diff(request: LabRequest) -> LabAnswer:
    """Run the program with two backends, and keep how they differ."""
    program = _opened(request)
    function = _placed(program, request.device)
    live = program.live
    inputs: Any = dict(live.arguments) if not live.positional else tuple(live.arguments.values())
    harness = KernelDiffHarness(
        function, _moved(inputs, request.device), model_name=request.name,
        reference_backend=_backend(request.reference), test_backend=_backend(request.backend), grad=program.grad,
        runs=request.runs, seed=program.seed, patience=request.patience,
    )  # fmt: skip
    report = harness.compare(generate_visualizations=request.pictures, out=request.case.folder / "lab")
    return LabAnswer(report.folder, report.error)


def _moved(inputs: Any, device: str) -> Any:
    from driftline.core.structure import rebuild

    return rebuild(inputs, lambda name, value: value.to(device) if is_tensor(value) else value)


def _opened(request: LabRequest) -> OpenedProgram:
    return OpenedProgram.of(request.case, request.case.samples()[0])


def _placed(program: OpenedProgram, device: str) -> Callable[..., Any]:
    """Return the program on the device, with IEEE arithmetic, as for targets that declare nothing else."""
    try:
        return placed(program.live.function, {"device": device})[0]
    except Unsupported:
        raise DriftlineError("No GPU is visible here; leave --device cuda out.") from None


def _backend(name: str) -> str:
    import torch

    known: Mapping[str, Any] = dict.fromkeys(torch._dynamo.list_backends(exclude_tags=()))
    if name not in known:
        from driftline.core.text import did_you_mean

        raise DriftlineError(f"torch.compile has no backend {name!r}.{did_you_mean(name, known)}")
    return name
