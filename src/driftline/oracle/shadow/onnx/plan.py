"""The properties of a node of an ONNX graph that are known before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.shadow.onnx.composites import is_composite
from driftline.oracle.shadow.onnx.decisions import QUANTISING, READS_CODES, decides
from driftline.oracle.shadow.onnx.rules import is_exact

RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


@dataclass(frozen=True)
class Plan:
    """The properties of a node that every run needs."""

    node: Any  # kept alive, so that its id is not reused
    container: bool
    names: tuple[str, ...]
    dtypes: tuple[str | None, ...]
    attributes: dict[str, Any]
    may_be_random: bool
    composite: bool
    decides: bool
    exact: bool
    requantises: bool  # it quantises a value that derives from quantised values


class Planner:
    """Computes the plan of each node once, because a graph is executed dozens of times."""

    def __init__(self, types: dict[str, str], arithmetic: Arithmetic, opset: int) -> None:
        self._types = types
        self._arithmetic = arithmetic
        self._opset = opset
        self._plans: dict[int, Plan] = {}
        self.operators: set[str] = set()  # of all planned nodes
        self.requantises = False  # True if any planned node does
        self._from_codes: set[str] = set()  # values that are computed from quantised ones

    def plan(self, node: Any) -> Plan:
        """Return the plan of a node, computing it on the first call."""
        found = self._plans.get(id(node))
        if found is None:
            found = self._plans[id(node)] = self._planned(node)
        return found

    def _planned(self, node: Any) -> Plan:
        attributes = _attributes(node)
        self.operators.add(str(node.op_type))
        requantises = self._notes_codes(node)
        self.requantises |= requantises
        return Plan(
            node=node,
            container=_is_container(node),
            names=tuple(node.output),
            dtypes=self._dtypes(node),
            attributes=attributes,
            may_be_random=node.op_type in RANDOM or node.op_type == "Dropout",
            composite=is_composite(node, self._opset),
            decides=decides(node, self._leaves_floats(node)),
            exact=self._is_exact(node, attributes),
            requantises=requantises,
        )

    def _notes_codes(self, node: Any) -> bool:
        """Record which values derive from quantised values; return True if the node quantises such a value again.

        Nodes are planned in the order of their first run. Quantising a value that was never quantised is a single
        rounding that the standard specifies, so an error of one quantum is not legal there.
        """
        function = getattr(node, "impl_", None)
        inside = [inner.onnx_node for inner in function.rt_nodes_] if function else []
        derived = any(map(self._touches_codes, (node.onnx_node, *inside)))
        if derived:
            self._from_codes.update(node.output)
            for body in _bodies(node.onnx_node):  # the body has its own names for its inputs
                self._from_codes.update(value.name for value in body.input)
            self._from_codes.update(function.input_names if function else ())
        return node.op_type in QUANTISING and derived

    def _touches_codes(self, node: Any) -> bool:
        """True if the node, or any node inside its branches or loop bodies, reads quantised values."""
        if node.op_type in READS_CODES or any(name in self._from_codes for name in node.input):
            return True
        return any(self._touches_codes(inner) for body in _bodies(node) for inner in body.node)

    def _is_exact(self, node: Any, attributes: dict[str, Any]) -> bool:
        if node.op_type not in ("Cast", "CastLike"):
            return is_exact(node.op_type, attributes)
        before, after = self._types.get(node.input[0]), self._types.get(node.output[0])
        if not after:
            return True
        if not before:
            return False
        unit, largest = self._arithmetic.unit, self._arithmetic.largest
        return unit(after) <= unit(before) and largest(after) >= largest(before)

    def _leaves_floats(self, node: Any) -> bool:
        """True if the node casts a float to an integer, a boolean, or an 8-bit float, which the shadow keeps as it
        is."""
        if node.op_type not in ("Cast", "CastLike") or not self._types.get(node.input[0]):
            return False
        after = self._types.get(node.output[0], "")
        return not after or after.startswith("float8")

    def _dtypes(self, node: Any) -> tuple[str | None, ...]:
        """Return the float types in which the program stores the results. If a type is unknown, use that of an
        argument."""
        known = [self._types.get(name) for name in node.input]
        usual = next((t for t in known if t), None)
        return tuple(self._types.get(name, usual or "") or None for name in node.output)


def _is_container(node: Any) -> bool:
    from onnx.reference.op_run import OpFunction

    return isinstance(node, OpFunction) or bool(node.need_context()) or bool(getattr(node, "has_subgraph", False))


def _bodies(node: Any) -> list[Any]:
    """Return the graphs inside a node."""
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def _attributes(node: Any) -> dict[str, Any]:
    return {name: getattr(node, name) for name in node.attributes_names_}
