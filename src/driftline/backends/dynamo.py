"""Any backend that registers itself for `torch.compile` through the entry-point group `torch_dynamo_backends`.

Traps of `dynamo:openvino`: it runs unsupported operators in eager, and silently falls back to Inductor when its own
compilation fails, so an error under its name may be Inductor's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from driftline.backends import openvino
from driftline.backends._dynamo import compile_with_dynamo, dynamo_script_calls
from driftline.backends._torch import TorchBackend
from driftline.backends.base import Compiled, Options
from driftline.core.errors import innermost
from driftline.core.script_call import ScriptCall
from driftline.core.tracker import Tracker
from driftline.programs.opened import OpenedProgram


@dataclass(frozen=True)
class _Member:
    """The settings that a registered backend needs for a fair comparison; most need none."""

    options: Mapping[str, Any] = field(default_factory=dict)  # handed to `torch.compile`
    gradients: bool = True
    arithmetic: str = ""
    prepare: Callable[[], None] = lambda: None  # before its module is imported
    rejections: str = "not supported|not implemented|[Uu]nsupported"


_MEMBERS = {
    # Without the configuration it computes in bfloat16. Without `aot_autograd`, release 2026.4 fails on every module
    # that has parameters ("sources must not be empty for symbol"). An element type it does not know is a KeyError.
    "openvino": _Member(
        {"config": openvino.CONFIG, "aot_autograd": True},
        gradients=False,
        arithmetic=openvino.OpenVino.arithmetic,
        prepare=openvino.forbid_telemetry,
        rejections=rf"{openvino.REJECTIONS}|^torch\.(bfloat16|float8\w+|int16|uint16|complex\d+)$",
    ),
}


class DynamoBackend(TorchBackend):
    preset = "all"
    rungs = ("eager", "aot_eager")
    recompiles = True
    not_hunted = "backends that register themselves for torch.compile are hunted when they are named"
    tracker = Tracker()  # each has its own, which an entry point does not tell

    def __init__(self, member: str) -> None:
        super().__init__()
        self.member = member
        self.name = f"dynamo:{member}"  # type: ignore[misc]
        self._needs = _MEMBERS.get(member, _Member())
        self.gradients = self._needs.gradients  # type: ignore[misc]
        self.arithmetic = self._needs.arithmetic  # type: ignore[misc]
        (self._point,) = entry_points(group="torch_dynamo_backends", name=member)
        if self._point.dist:
            self.distribution = self._point.dist.name  # type: ignore[misc]
            self.install = f"pip install {self._point.dist.name}"  # type: ignore[misc]

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        return dynamo_script_calls(self.member, framework)

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        self._needs.prepare()
        self._point.load()  # some change Dynamo's configuration when imported: in the midst of compiling is too late
        return compile_with_dynamo(program, self.member, options, options=dict(self._needs.options) or None)

    def is_rejection(self, error: BaseException) -> bool:
        """True if the innermost error means "not supported": Dynamo wraps the backend's error and adds text."""
        inner = innermost(error)
        return super().is_rejection(inner) or bool(re.search(self._needs.rejections, str(inner)))
