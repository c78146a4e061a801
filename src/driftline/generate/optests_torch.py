"""Programs from the operator tests of PyTorch: its `OpInfo` table has samples for every operator and dtype.

A program contains the call itself, with the tensors of the sample as inputs and all other arguments as literals; it
does not depend on the table. Every program is run twice first: those that raise, return no tensors or differ from run
to run are rejected. In a pair, the first result of one operator is an input of another.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence, Set
from typing import Any

import torch

from driftline.backends._torch import backward, cotangents
from driftline.core.structure import flatten
from driftline.core.tensors import DTYPES, TensorSpec
from driftline.generate.base import Blueprint, NoProgram
from driftline.generate.torch_samples import (
    TESTED,
    ProposedCall,
    dtype_name,
    dtypes_of,
    operators,
    quiet,
    samples_of,
    tensors_in,
    twin,
)
from driftline.generate.torch_text import Writer, calls_of, example_text, program_text
from driftline.inputs.domain import fixed
from driftline.inputs.plan import InputPlan
from driftline.programs.torch_tensors import array_from_tensor

PAIRS = "pairs"

# What inputs must hold, by operator; the first that fits. Else floats are free, integers stay in the sample's range.
_RULES: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(names), floats, integers)
    for names, floats, integers in (
        # Eager refuses arbitrary numbers, or says nothing about them: the sample's own are used.
        (
            r"linalg\..*|.*cholesky.*|.*solve.*|lu|lu_unpack|ormqr|orgqr|geqrf|pinverse|logdet|svd|qr|.*inverse|norm:nuc"
            r"|cov|.*quantile|histogram.*|bucketize|searchsorted|istft|.*gaussian_nll_loss|.*space:tensor_overload",
            "like",
            "exact",
        ),
        # The degree is a float, and eager takes that many steps: a large one takes years.
        (r".*_polynomial_.*", "like", "exact"),
        # Eager steps from a negative number up to zero, one by one.
        (r".*polygamma.*|special\.zeta", "positive", "like"),
        # Integers that fit together, or say where to write: twice the same place is undefined.
        (
            r"scatter|index_put|index_copy|put|.*max_unpool.*|.*embedding_bag|repeat_interleave|_segment_reduce.*"
            r"|.*ctc_loss|.*multilabel_margin_loss|tensor_split",
            "any",
            "exact",
        ),
        (r"div:trunc_rounding", "any", "exact"),  # the smallest integer by -1 kills eager itself
        (r"div:floor_rounding|floor_divide|remainder|fmod|__rmod__", "any", "nonzero"),
        (r".*binary_cross_entropy", "unit", "like"),
    )
)

_WEIGHTS = (8, 3, 3, 3, 2, 2, 1, 1, 1, 1, 0.3, 0.3, 0.3, 1, 0.5)
_FOLLOWERS = 12  # operators that are tried as the second of a pair
_TRIES = 4  # other samples that are tried before there is no program
_WRITTEN = 1024  # elements; the numbers of larger examples are not written out


def torch_arms() -> list[str]:
    return [*operators(), PAIRS]


def make_torch(arm: str, seed: str, avoid: Set[str] = frozenset()) -> Blueprint:
    """Return the program of an operator, of a pair `A>B`, or of a pair that the seed chooses."""
    rng = random.Random(f"{arm}/{seed}")
    first, _, second = arm.partition(">")
    if first == PAIRS:
        first = rng.choice(list(operators()))
    if first not in operators() or (second and second not in operators()):
        raise NoProgram(f"{arm} is no operator test")
    dtype = _choose_dtype(first, rng, avoid)
    samples = samples_of(first, dtype)
    order = rng.sample(range(len(samples)), min(_TRIES, len(samples)))
    problem = "it has no samples"
    for number in order:
        try:
            if first == arm:
                made = _single(first, dtype, samples[number], rng)
            else:
                made = _pair(first, second, dtype, samples[number], rng, avoid)
        except NoProgram as error:
            problem = str(error)
            continue
        if not any(f"{operator} {dtype}" in avoid for operator, dtype in made.coverage):
            return made
        problem = "it is to be avoided"
    raise NoProgram(f"{arm} with {dtype}: {problem}")


def _single(name: str, dtype: str, sample: ProposedCall, rng: random.Random) -> Blueprint:
    draft = _Draft()
    result, _ = draft.call(name, sample)
    grad = rng.random() < 0.25 and _has_gradient(name, dtype)
    return draft.finished((name,), (dtype,), result, grad)


def _pair(first: str, second: str, dtype: str, sample: ProposedCall, rng: random.Random, avoid: Set[str]) -> Blueprint:
    draft = _Draft()
    expression, value = draft.call(first, sample)
    draft.writer.assign(expression, value)
    passed = next((t for t in tensors_in(value) if dtype_name(t.dtype) in DTYPES and t.numel()), None)
    if passed is None:
        raise NoProgram(f"{first} gives nothing to pass on")
    between = dtype_name(passed.dtype)
    for name in [second] if second else rng.sample(list(operators()), _FOLLOWERS):
        follower = None if f"{name} {between}" in avoid else _follower(name, passed, rng)
        if follower is not None:
            result, _ = draft.call(name, follower)
            grad = rng.random() < 0.25 and _has_gradient(first, dtype) and _has_gradient(name, between)
            return draft.finished((first, name), (dtype, between), result, grad)
    raise NoProgram(f"nothing that was tried follows {first}")


def _follower(name: str, passed: torch.Tensor, rng: random.Random) -> ProposedCall | None:
    """Return a sample of the operator with its only tensor replaced by `passed`; a second operand is the same,
    reversed."""
    op, dtype = operators()[name], dtype_name(passed.dtype)
    if dtype not in dtypes_of(op):
        return None
    kind = type(op).__name__
    if kind == "BinaryUfuncInfo":
        return ProposedCall((passed, passed.flip(list(range(passed.ndim)))), {})
    fitting = [
        sample
        for sample in samples_of(name, dtype)
        if sample.args
        and len(tensors := list(tensors_in([sample.args, sample.kwargs]))) == 1
        and tensors[0] is sample.args[0]
        and (kind == "UnaryUfuncInfo" or tensors[0].ndim == passed.ndim)
    ]
    if not fitting:
        return None
    chosen = rng.choice(fitting)
    return ProposedCall((passed, *chosen.args[1:]), chosen.kwargs)


class _Draft:
    """A program under construction. Calls run on copies of the tensors, since some modify their arguments."""

    def __init__(self) -> None:
        self.writer = Writer()
        self._original: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # (copy, original) by the id of the copy

    def call(self, name: str, sample: ProposedCall) -> tuple[str, Any]:
        """Run the call, and return its expression and its value."""
        args, kwargs = self._copied((sample.args, sample.kwargs), {})
        try:
            with torch.no_grad(), quiet():
                calls, result = calls_of(operators()[name].op, args, kwargs)
        except Exception as error:
            raise NoProgram(f"eager refuses the call: {error}") from error
        return self.writer.write(calls, result), result

    def _copied(self, value: Any, done: dict[int, torch.Tensor]) -> Any:
        if isinstance(value, torch.Tensor):
            if self.writer.knows(value):
                return value
            if id(value) not in done:
                copy = done[id(value)] = twin(value)
                self._original[id(copy)] = (copy, value)
            return done[id(value)]
        if type(value) in (tuple, list):
            return type(value)(self._copied(item, done) for item in value)
        if type(value) is dict:
            return {key: self._copied(item, done) for key, item in value.items()}
        return value

    def finished(self, names: tuple[str, ...], dtypes: tuple[str, ...], result: str, grad: bool) -> Blueprint:
        """Return the program. Raises `NoProgram` if it does not run or differs from run to run."""
        tensors = [self._original.get(id(tensor), (tensor, tensor))[1] for tensor in self.writer.inputs]
        plans = tuple(_plan(f"x{number}", tensor, names) for number, tensor in enumerate(tensors))
        examples = [_example(tensor, plan) for tensor, plan in zip(tensors, plans, strict=True)]
        text = program_text(self.writer, result, examples)
        model = _loaded(text)
        if _outputs(model, tensors, 1) != _outputs(model, tensors, 2):
            raise NoProgram("it gives other numbers each time")
        first = plans[0].spec.dtype if plans else dtypes[0]
        return Blueprint(
            form="torch",
            content=text,
            inputs=plans,
            operators=names,
            coverage=tuple(zip(names, (first, *dtypes[1:]), strict=True)),
            grad=grad and _differentiable(model, tensors),
            edges=_edges(names),
            example={plan.spec.name: plan.example for plan in plans if plan.example is not None},
        )


def _plan(name: str, tensor: torch.Tensor, names: Sequence[str]) -> InputPlan:
    array = array_from_tensor(tensor)
    elementwise = all(type(operators()[n]).__name__ == "UnaryUfuncInfo" for n in names)
    floats, integers = "any", "any" if elementwise else "like"
    for pattern, for_floats, for_integers in _RULES:
        if any(pattern.fullmatch(n) for n in names):
            floats, integers = for_floats, for_integers
            break
    inexact = tensor.is_floating_point() or tensor.is_complex()
    rule = floats if inexact else "any" if tensor.dtype == torch.bool and integers != "exact" else integers
    return InputPlan(TensorSpec(name, array.dtype.name, array.shape), rule, array)


def _example(tensor: torch.Tensor, plan: InputPlan) -> str:
    """Return the text of an example input. It contains the example's numbers if zeros may be invalid and there are
    few."""
    most = _WRITTEN if fixed(plan) is not None else _WRITTEN // 16
    numbers = plan.values in ("like", "exact") and tensor.numel() <= most and not _overlaps(tensor)
    return example_text(tensor, numbers=numbers, fill="ones" if plan.values in ("nonzero", "positive") else "zeros")


def _edges(names: Sequence[str]) -> tuple[float, ...]:
    """Return the ends of the domains of the elementwise operators."""
    ends = [end for name in names for end in getattr(operators()[name], "domain", None) or ()]
    return tuple(sorted({float(end) for end in ends if end is not None}))


def _loaded(text: str) -> Any:
    space: dict[str, Any] = {}
    exec(compile(text, "<program>", "exec"), space)
    return space["model"]


def _outputs(model: Any, tensors: Sequence[torch.Tensor], seed: int) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Run the model and return everything it returns, in a form that can be compared. `seed` seeds random operators."""
    torch.manual_seed(seed)
    try:
        with torch.no_grad(), quiet():
            found = list(flatten(model(*map(twin, tensors)), "output").values())
            if not found or not all(isinstance(leaf, torch.Tensor) for leaf in found):
                raise NoProgram("it returns something else than tensors")
            if any(leaf.layout != torch.strided or dtype_name(leaf.dtype) not in DTYPES for leaf in found):
                raise NoProgram("it returns tensors of a kind that cannot be compared")
            arrays = [array_from_tensor(leaf) for leaf in found]
    except NoProgram:
        raise
    except Exception as error:
        raise NoProgram(f"eager refuses the program: {error}") from error
    return [(array.dtype.name, array.shape, array.tobytes()) for array in arrays]


def _differentiable(model: Any, tensors: Sequence[torch.Tensor]) -> bool:
    leaves = [twin(tensor) for tensor in tensors]
    leaves = [leaf.requires_grad_() if leaf.is_floating_point() else leaf for leaf in leaves]
    try:
        with quiet():
            backward(cotangents(model(*leaves), 0))
    except Exception:  # then no gradient is asked for: that eager refuses is no bug
        return False
    return any(leaf.grad is not None for leaf in leaves)


def _has_gradient(name: str, dtype: str) -> bool:
    return bool(operators()[name].supports_autograd) and dtype in ("float32", "float64")


def _overlaps(tensor: torch.Tensor) -> bool:
    """True if two of the tensor's elements share memory, or may."""
    places = sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)
    reach = 0
    for stride, size in places:
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def _choose_dtype(name: str, rng: random.Random, avoid: Set[str]) -> str:
    known = [dtype for dtype in dtypes_of(operators()[name]) if f"{name} {dtype}" not in avoid]
    if not known:
        raise NoProgram(f"all dtypes of {name} are to be avoided")
    return rng.choices(known, [_WEIGHTS[TESTED.index(dtype)] for dtype in known])[0]
