"""Records what torch does while it compiles.

torch reports its work by *structured trace* records (which tlparse reads) and, for Inductor's IR, by two loggers. Both
arrive in order, in the thread that compiles, so a recorder needs no files of torch, patches nothing and changes no
settings for good. Only one recorder at a time may be active in a process, because the records do not say which recorder
they belong to.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from driftline.core.errors import DriftlineError

_GRAPHS = {
    "dynamo_output_graph": "pre_aot",
    "aot_joint_graph": "joint",
    "aot_forward_graph": "forward",
    "aot_inference_graph": "forward",
    "aot_backward_graph": "backward",
}
_IR = {"ir_pre_fusion": "ir_before_fusion", "ir_post_fusion": "ir_after_fusion"}
_listening = threading.Lock()


@dataclass
class LoweredGraph:
    """What Inductor made of one graph: a forward, a backward, or an inference graph."""

    post_grad: str = ""
    ir_before_fusion: str = ""
    ir_after_fusion: str = ""
    code: str = ""
    nodes: dict[str, list[str]] = field(default_factory=dict)  # of the post-grad graph, by kernel
    stacks: dict[str, list[str]] = field(default_factory=dict)  # user code, by kernel
    before_grad: dict[str, list[str]] = field(default_factory=dict)  # post-grad node -> pre-grad nodes


@dataclass
class Compilation:
    """One compilation of one frame: a function, or the part of it after a graph break."""

    id: str  # as torch writes it: frame/compilation
    stack: list[dict[str, Any]] = field(default_factory=list)  # the call stack; the frame itself is last
    graphs: dict[str, str] = field(default_factory=dict)  # by stage: pre_aot, joint, forward, backward
    lowerings: list[LoweredGraph] = field(default_factory=list)
    guards: str = ""
    breaks: list[dict[str, Any]] = field(default_factory=list)
    recompile_reasons: list[str] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    backward_metrics: dict[str, Any] = field(default_factory=dict)
    attempts: int = 1


@dataclass
class Recording:
    """Everything that was compiled during a recording."""

    compilations: dict[str, Compilation] = field(default_factory=dict)
    phases: list[tuple[str, str, float]] = field(default_factory=list)  # compile id, phase, seconds


class Recorder(logging.Handler):
    """A logging handler that collects torch's trace records into a `Recording`."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.recording = Recording()
        self._files: dict[int, str] = {}  # torch sends each file name once in the life of a process, with a number
        self._begun: dict[tuple[str, Any, Any], list[float]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None)
        try:
            if metadata is None:
                self._ir(record)
            else:
                self._structured(metadata, getattr(record, "payload", None))
        except Exception:  # a listener must never break a compilation
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        return  # a record in another release's format is only missing from the capture

    def _structured(self, metadata: Mapping[str, Any], payload: str | None) -> None:
        if "str" in metadata:
            name, number = metadata["str"]
            self._files[number] = name
            return
        if "chromium_event" in metadata:
            self._phase(json.loads(payload or "{}"))
            return
        compilation = self._compilation(metadata)
        for key, stage in _GRAPHS.items():
            if key in metadata:
                compilation.graphs[stage] = payload or ""
        if "dynamo_start" in metadata:
            compilation.stack = [self._frame(frame) for frame in metadata["dynamo_start"].get("stack", ())]
        elif "dynamo_cpp_guards_str" in metadata:
            compilation.guards = payload or ""
        elif "inductor_output_code" in metadata:
            self._lowering(compilation).code = payload or ""
        elif "compilation_metrics" in metadata:
            compilation.metrics = dict(metadata["compilation_metrics"])
        elif "bwd_compilation_metrics" in metadata:
            compilation.backward_metrics = dict(metadata["bwd_compilation_metrics"])
        elif "artifact" in metadata:
            self._artifact(compilation, metadata["artifact"].get("name", ""), payload or "")

    def _artifact(self, compilation: Compilation, name: str, payload: str) -> None:
        if name == "inductor_post_grad_graph":
            compilation.lowerings.append(LoweredGraph(post_grad=payload))
        elif name == "dynamo_graph_break_reason":
            compilation.breaks.append({"text": payload, "attempt": compilation.attempts - 1})
        elif name == "recompile_reasons":
            compilation.recompile_reasons = _reasons(payload)
        elif name == "inductor_provenance_tracking_node_mappings":
            self._lowering(compilation).before_grad = json.loads(payload).get("postToPre", {})
        elif name == "inductor_provenance_tracking_kernel_stack_traces":
            lowering = self._lowering(compilation)
            lowering.stacks = json.loads(payload)
            lowering.nodes = _kernel_nodes()

    def _ir(self, record: logging.LogRecord) -> None:
        import torch

        now = torch._guards.CompileContext.current_compile_id()
        field_name = _IR.get(record.name.rpartition("__")[2])
        if now is not None and field_name and str(now) in self.recording.compilations:
            text = record.getMessage().partition("\n")[2]
            setattr(self._lowering(self.recording.compilations[str(now)]), field_name, text)

    def _compilation(self, metadata: Mapping[str, Any]) -> Compilation:
        name = f"{metadata.get('frame_id', '?')}/{metadata.get('frame_compile_id', '?')}"
        if metadata.get("compiled_autograd_id") is not None:
            name = f"!{metadata['compiled_autograd_id']}/{name}"
        found = self.recording.compilations.setdefault(name, Compilation(name))
        found.attempts = max(found.attempts, int(metadata.get("attempt") or 0) + 1)
        return found

    def _lowering(self, compilation: Compilation) -> LoweredGraph:
        if not compilation.lowerings:
            compilation.lowerings.append(LoweredGraph())
        return compilation.lowerings[-1]

    def _frame(self, frame: Mapping[str, Any]) -> dict[str, Any]:
        file = frame.get("filename")
        if isinstance(file, int) and file not in self._files:
            from torch._logging import structured

            self._files = {number: name for name, number in structured.INTERN_TABLE.items()}
        return {**frame, "filename": self._files.get(file, str(file)) if isinstance(file, int) else str(file)}

    def _phase(self, event: Mapping[str, Any]) -> None:
        key = (str(event.get("name")), event.get("pid"), event.get("tid"))
        if event.get("ph") == "B":
            self._begun.setdefault(key, []).append(float(event["ts"]))
        elif event.get("ph") == "E" and self._begun.get(key):
            seconds = (float(event["ts"]) - self._begun[key].pop()) / 1e6
            self.recording.phases.append((str(event.get("args", {}).get("compile_id", "")), key[0], seconds))


def _reasons(payload: str) -> list[str]:
    """Return the reasons of a record: torch sends one as plain text, several as JSON."""
    try:
        value = json.loads(payload)
    except ValueError:
        return [payload] if payload else []
    return [str(reason) for reason in value] if isinstance(value, list) else [str(value)]


def _kernel_nodes() -> dict[str, list[str]]:
    """Return the post-grad nodes of each kernel, which torch knows but leaves out of its record of a backward."""
    from torch._inductor import debug

    known = getattr(debug, "_inductor_triton_kernel_to_post_grad_node_info", {})
    return {str(kernel): [str(node) for node in nodes] for kernel, nodes in known.items()}


@contextlib.contextmanager
def recording(*, lowering: bool = True) -> Iterator[Recording]:
    """Record compilations while the block runs. `lowering`: bypass Inductor's caches, so that every graph is lowered
    and recorded, and have it report which node went into which kernel."""
    import torch._dynamo
    import torch._functorch.config
    import torch._inductor.config
    from torch._logging import _internal

    if not _listening.acquire(blocking=False):
        raise DriftlineError(
            "Something else in this process is being captured or inspected: torch does not tell two apart. Wait for it,"
            " or use another process."
        )
    recorder = Recorder()
    irs = [logging.getLogger(f"torch._inductor.debug.__{name}") for name in _IR] if lowering else []
    before = [(log, log.level, log.propagate) for log in irs]
    try:
        with contextlib.ExitStack() as stack:
            if lowering:
                inductor = {
                    "fx_graph_cache": False,
                    "fx_graph_remote_cache": False,
                    "trace.provenance_tracking_level": 1,
                }
                stack.enter_context(torch._inductor.config.patch(inductor))
                stack.enter_context(torch._functorch.config.patch({"enable_autograd_cache": False}))
            for log in irs:
                log.setLevel(logging.INFO)
                log.propagate = bool(log.handlers)
                log.addHandler(recorder)
            _internal.trace_log.addHandler(recorder)
            yield recorder.recording
    finally:
        _internal.trace_log.removeHandler(recorder)
        for log, level, propagate in before:
            log.removeHandler(recorder)
            log.setLevel(level)
            log.propagate = propagate
        _listening.release()
