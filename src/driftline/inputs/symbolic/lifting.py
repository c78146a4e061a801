"""Turn the numbers of a slice into inputs of the whole program.

Variables that are elements of inputs are written into the example. Elements at which the slice was cut are driven to
the wanted numbers by Gauss-Newton steps in float64, and then in the program's own dtypes, ULP by ULP. In both cases the
program is then run and its actual results are tested for the goal.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from driftline.inputs.symbolic.answers import Clock
from driftline.inputs.symbolic.goals import GoalKind, Query
from driftline.inputs.symbolic.slices import Slice, values_of
from driftline.inputs.symbolic.traced import TracedProgram

STEPS = 25
STARTS = 4
POLISHES = 400

Tensors = list[torch.Tensor]


@dataclass(frozen=True)
class Lifted:
    """Inputs of the program on which the slice reaches its goal, and the number of NaN and infinite elements in the
    results."""

    tensors: Tensors
    nan: int
    inf: int


class Lifter:
    """Finds inputs for the slices of one program."""

    def __init__(self, traced: TracedProgram, seed: int = 0) -> None:
        self._traced = traced
        self._example = list(traced.example.values())
        self._named = {node.name: node for node in traced.nodes}
        self.inputs = [node.name for node in traced.nodes if node.op == "placeholder"]
        self._rng = torch.Generator().manual_seed(seed)

    def lift(self, piece: Slice, query: Query, numbers: Mapping[str, float], left: Clock) -> Lifted | None:
        """Return inputs of the program on which the slice reaches its goal, or None. `numbers` is the witness of the
        slice."""
        base = self._written(self._example, piece, numbers)
        if found := self._reaches(piece, query, base):
            return found
        wanted = [(piece.places[name].node, piece.places[name].elements[0], value) for name, value in numbers.items()]
        cut = [one for one in wanted if one[0] not in self.inputs]
        if not cut:
            return None
        critical = self._critical(piece, query, numbers)
        for targets in filter(None, (critical[:1], cut)):
            for start in range(STARTS):
                if left() <= 0:
                    return None
                near = self._driven(self._start(base, start), targets, left)
                found = self._reaches(piece, query, near) or self._polished(piece, query, near, targets, left)
                if found:
                    return found
        return None

    def _written(self, tensors: Tensors, piece: Slice, numbers: Mapping[str, float]) -> Tensors:
        """Return the tensors with the variables that are elements of inputs set to their numbers."""
        made = [tensor.clone() for tensor in tensors]
        for name, value in numbers.items():
            place = piece.places[name]
            if place.node in self.inputs:
                flat = made[self.inputs.index(place.node)].view(-1)
                flat[list(place.elements)] = torch.tensor(value, dtype=torch.float64).to(flat.dtype)
        return made

    def _reaches(self, piece: Slice, query: Query, tensors: Tensors) -> Lifted | None:
        """Run the program and test whether the slice and the node itself reach the goal. Returns the lifted inputs or
        None."""
        if not all(torch.isfinite(t).all() for t in tensors if t.is_floating_point()):
            return None
        values = values_of(self._traced, tensors)
        given = {}
        for node in query.variables:
            place = piece.places[node.name]
            found = values[self._named[place.node]].reshape(-1)[place.elements[0]]
            given[node.name] = np.asarray([float(found)], node.format.carrier)
        if not all(np.isfinite(value).all() for value in given.values()) or not query.hits(given)[0]:
            return None
        real = values[self._named[piece.node]].reshape(-1)[piece.at]
        if query.goal.kind is GoalKind.NAN and not torch.isnan(real):
            return None
        if query.goal.kind is GoalKind.INF and not torch.isinf(real):
            return None
        results = [r for r in _tensors(values[self._traced.nodes[-1]]) if r.is_floating_point()]
        nan, inf = (sum(int(test(r).sum()) for r in results) for test in (torch.isnan, torch.isinf))
        return Lifted(tensors, nan, inf)

    def _critical(self, piece: Slice, query: Query, numbers: Mapping[str, float]) -> list[tuple[str, int, float]]:
        """Return the elements that the node reads, with the values that they have in the witness."""
        given = {n.name: np.asarray([numbers[n.name]], n.format.carrier) for n in query.variables}
        values, _ = query.run(given)
        root = piece.root
        while root.op == "cast":
            root = root.args[0]
        found = []
        for (name, at), arg in zip(
            piece.critical, reversed([a for a in root.args if a.op != "constant"]), strict=False
        ):
            value = float(np.ravel(values[arg])[0])
            if np.isfinite(value):
                found.append((name, at, value))
        return found

    def _start(self, base: Tensors, number: int) -> Tensors:
        """Return the starting point of attempt `number`: the example first, then random inputs of different sizes."""
        if number == 0:
            return base
        made = []
        for tensor in base:
            noise = torch.randn(tensor.shape, generator=self._rng, dtype=torch.float64) * (1.0, 2.0, 5.0)[number % 3]
            made.append(noise.to(tensor.dtype) if tensor.is_floating_point() else tensor)
        return made

    def _driven(self, tensors: Tensors, targets: Sequence[tuple[str, int, float]], left: Clock) -> Tensors:
        """Move the inputs towards the targets by Gauss-Newton steps in float64, damped more when a step does not
        help."""
        here = [t.to(torch.float64) if t.is_floating_point() else t for t in tensors]
        best, far = here, float("inf")
        damping = 1e-9
        for _ in range(STEPS):
            if left() <= 0:
                break
            try:
                rest, rows = self._slopes(here, targets)
            except RuntimeError:  # an operator without a derivative stands between
                break
            size = float(rest.abs().max())
            if not np.isfinite(size) or not torch.isfinite(rows).all() or not rows.abs().max() > 0:
                break
            if size < far:
                best, far, damping = here, size, max(damping / 4, 1e-12)
            else:
                damping *= 16
            if far < 1e-12:
                break
            gram = rows @ rows.T
            try:
                solved = torch.linalg.solve(gram + damping * gram.diag().mean() * torch.eye(len(gram)), rest)
            except torch.linalg.LinAlgError:
                damping = max(damping * 1e3, 1e-6)
                continue
            here = _shifted(here, -(rows.T @ solved))
        return [b.to(t.dtype) for b, t in zip(best, tensors, strict=True)]

    def _slopes(self, tensors: Tensors, targets: Sequence[tuple[str, int, float]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the error of each target, and its gradient with respect to all float inputs."""
        leaves = [t.detach().clone().requires_grad_(t.is_floating_point()) for t in tensors]
        values = _DoubleRun(self._traced.module, {name for name, _, _ in targets}).values(leaves)
        floats = [leaf for leaf in leaves if leaf.is_floating_point()]
        rest, rows = [], []
        for name, at, value in targets:
            one = values[name].reshape(-1)[at]
            slopes = torch.autograd.grad(one, floats, retain_graph=True, allow_unused=True)
            parts = [torch.zeros_like(leaf) if s is None else s for s, leaf in zip(slopes, floats, strict=True)]
            rows.append(torch.cat([part.reshape(-1) for part in parts]))
            rest.append(one.detach() - value)
        return torch.stack(rest), torch.stack(rows)

    def _polished(
        self, piece: Slice, query: Query, tensors: Tensors, targets: Sequence[tuple[str, int, float]], left: Clock
    ) -> Lifted | None:
        """Correct the inputs by the values that the rounding program really computes, then try neighbours a few ULP
        away."""
        if len(targets) > 1:
            return None
        ((name, at, value),) = targets
        here = tensors
        try:
            for _ in range(4):
                got = float(values_of(self._traced, here)[self._named[name]].reshape(-1)[at])
                _, rows = self._slopes([t.double() if t.is_floating_point() else t for t in here], targets)
                slope = rows[0] / (rows[0] @ rows[0])
                if not torch.isfinite(slope).all() or not np.isfinite(got):
                    return None
                here = _shifted(here, -(got - value) * slope)
        except RuntimeError:
            return None
        if abs(got - value) > 1e-2 * max(1.0, abs(value)):
            return None
        for _ in range(POLISHES):
            if left() <= 0:
                return None
            near = [self._jiggled(t) for t in here]
            if found := self._reaches(piece, query, near):
                return found
        return None

    def _jiggled(self, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        ulps = torch.randint(-2, 3, tensor.shape, generator=self._rng).to(torch.float64)
        return (tensor.double() * (1 + ulps * torch.finfo(tensor.dtype).eps)).to(tensor.dtype)


class _DoubleRun(torch.fx.Interpreter):  # type: ignore[misc]
    """Runs the graph in float64, up to the wanted nodes."""

    def __init__(self, module: Any, wanted: set[str]) -> None:
        super().__init__(module)
        self._wanted = wanted

    def values(self, leaves: Tensors) -> dict[str, torch.Tensor]:
        self.args_iter, self.env = iter(leaves), {}
        found: dict[str, torch.Tensor] = {}
        for node in self.module.graph.nodes:
            self.env[node] = self.run_node(node)
            if node.name in self._wanted:
                found[node.name] = self.env[node]
                if len(found) == len(self._wanted):
                    break
        return found

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return _double(super().get_attr(target, args, kwargs))

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        wide = {k: torch.float64 if k == "dtype" and v and v.is_floating_point else v for k, v in kwargs.items()}
        return super().call_function(target, args, wide)


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _shifted(tensors: Tensors, step: torch.Tensor) -> Tensors:
    """Return the tensors with each float tensor moved by its part of the step."""
    made, at = [], 0
    for tensor in tensors:
        if tensor.is_floating_point():
            part = step[at : at + tensor.numel()].reshape(tensor.shape)
            at += tensor.numel()
            made.append((tensor.double() + part).to(tensor.dtype))
        else:
            made.append(tensor)
    return made


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, (tuple, list)):
        return [one for item in value for one in _tensors(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def clock(seconds: float) -> Clock:
    until = time.monotonic() + seconds
    return lambda: until - time.monotonic()
