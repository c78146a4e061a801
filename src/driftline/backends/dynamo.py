"""Any backend that registers itself for `torch.compile` through the entry-point group `torch_dynamo_backends`."""

from __future__ import annotations

from importlib.metadata import entry_points

from driftline.backends._dynamo import compile_with_dynamo
from driftline.backends._torch import TorchBackend
from driftline.backends.base import Compiled, Options
from driftline.programs.opened import OpenedProgram


class DynamoBackend(TorchBackend):
    def __init__(self, member: str) -> None:
        super().__init__()
        self.member = member
        self.name = f"dynamo:{member}"  # type: ignore[misc]
        (point,) = entry_points(group="torch_dynamo_backends", name=member)
        if point.dist:
            self.distribution = point.dist.name  # type: ignore[misc]
            self.install = f"pip install {point.dist.name}"  # type: ignore[misc]

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        return compile_with_dynamo(program, self.member)
