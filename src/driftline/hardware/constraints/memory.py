"""Limits on memory: of one tensor, and of everything live at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from driftline.hardware.constraint import Broken, Constraint, byte_count, register_constraint, setting, switch
from driftline.hardware.facts import GraphFacts, NodeFacts
from driftline.hardware.liveness import peak_memory
from driftline.hardware.sizes import show_bytes
from driftline.hardware.violation import Violation

NAMED = 3  # of the live tensors


@register_constraint("memory")
@dataclass(frozen=True)
class MemoryConstraint(Constraint):
    """Limits the bytes of one tensor."""

    max_bytes: int = setting(byte_count, "bytes of one tensor, such as '16 MiB'", default=2**30)

    def broken_by(self, node: NodeFacts) -> Iterator[Broken]:
        for tensor in self.tensors(node):
            if tensor.nbytes > self.max_bytes:
                parts = -(-tensor.nbytes // self.max_bytes)
                value = f"{tensor} takes {show_bytes(tensor.nbytes)}"
                yield Broken(value, f"at most {show_bytes(self.max_bytes)}", f"split into {parts} parts")


@register_constraint("peak_memory")
@dataclass(frozen=True)
class PeakMemoryConstraint(Constraint):
    """Limits the bytes that are live at one time: inputs and weights, and values that will still be read."""

    max_bytes: int = setting(byte_count, "bytes that are live at once, such as '64 MiB'", default=2**33)
    inputs: bool = setting(switch, "whether inputs and weights count too", default=True)

    def violations(self, graph: GraphFacts) -> Iterator[Violation]:
        peak = peak_memory(graph, inputs=self.inputs)
        if peak.node is None or peak.nbytes <= self.max_bytes:
            return
        largest = ", ".join(f"{one.node} {one.tensor} {show_bytes(one.nbytes)}" for one in peak.live[:NAMED])
        value = f"{show_bytes(peak.nbytes)} are live at once in {len(peak.live)} tensors (largest: {largest})"
        fits = f"{show_bytes(peak.nbytes - self.max_bytes)} less"
        yield self.violation(graph, peak.node, Broken(value, f"at most {show_bytes(self.max_bytes)}", fits))
