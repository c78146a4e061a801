"""Rules that compute an element of an aten operator's result from elements of its operands, one rule for each operator.

Sums accumulate in float32 for float16 and bfloat16, as the kernels do. A Python number combined with these is float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from driftline.inputs.symbolic import functions as f
from driftline.inputs.symbolic.formats import FLOAT32, FORMATS, Format, wider
from driftline.inputs.symbolic.graph import COMPARISONS, ExprNode, apply, cast, constant, where
from driftline.inputs.symbolic.slices import TERMS, ElementRule, NoRule, Slicer, broadcast

RULES: dict[str, ElementRule] = {}
_SEQUENTIAL = 8  # longer rows are summed pairwise
LONGEST = 4096


def rule(*names: str) -> Callable[[ElementRule], ElementRule]:
    """Decorator that registers the rule for the named operators."""

    def register(function: ElementRule) -> ElementRule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def operand(slicer: Slicer, node: Any, arg: Any, at: int, form: Format) -> ExprNode:
    """Return the element of an argument that result element `at` needs, in the format `form`. Python numbers become
    constants."""
    if isinstance(arg, torch.fx.Node):
        value = slicer.values[arg]
        if not isinstance(value, torch.Tensor):
            raise NoRule
        index = broadcast(tuple(value.shape), tuple(slicer.values[node].shape), at)
        found = slicer.element(arg, index)
        return cast(found, form) if found.form is not None else found
    if isinstance(arg, (int, float)):
        return constant(float(arg), form)
    raise NoRule


def as_number(found: ExprNode, form: Format) -> ExprNode:
    """Return a truth value as one or zero; numbers are returned unchanged."""
    return found if found.form is not None else where(found, constant(1.0, form), constant(0.0, form))


def _compute_in(slicer: Slicer, node: Any, args: Any) -> Format:
    """Return the format to compute in: wider than the result's if a Python number is not representable in it, or if a
    0-d float operand has another dtype."""
    form = slicer.form(node)
    odd = any(isinstance(a, float) and float(form.round(np.asarray(a))) != a for a in args)
    tensors = [slicer.values[a] for a in args if isinstance(a, torch.fx.Node)]
    mixed = any(t.is_floating_point() and t.ndim == 0 and t.dtype != slicer.values[node].dtype for t in tensors)
    return wider(form) if odd or mixed else form


def pointwise(op: str) -> ElementRule:
    """Return the rule of an elementwise operation."""

    def compute(slicer: Slicer, node: Any, at: int) -> ExprNode:
        form = _compute_in(slicer, node, node.args)
        args = [as_number(operand(slicer, node, arg, at, form), form) for arg in node.args]
        if node.kwargs.get("rounding_mode"):
            raise NoRule
        alpha = node.kwargs.get("alpha", 1)
        if alpha != 1:
            args[1] = args[1] * float(alpha)
        return cast(apply(op, *args), slicer.form(node))

    return compute


for _op, _names in {
    "add": "add.Tensor add.Scalar", "sub": "sub.Tensor sub.Scalar", "mul": "mul.Tensor mul.Scalar",
    "div": "div.Tensor div.Scalar true_divide.Tensor", "neg": "neg.default", "abs": "abs.default", "exp": "exp.default",
    "exp2": "exp2.default", "expm1": "expm1.default", "log": "log.default", "log2": "log2.default",
    "log1p": "log1p.default", "sqrt": "sqrt.default", "rsqrt": "rsqrt.default", "sin": "sin.default",
    "cos": "cos.default", "tanh": "tanh.default", "sigmoid": "sigmoid.default", "erf": "erf.default",
    "floor": "floor.default", "ceil": "ceil.default", "round": "round.default", "min": "minimum.default",
    "max": "maximum.default",
}.items():  # fmt: skip
    for _name in _names.split():
        RULES[_name] = pointwise(_op)


@rule("rsub.Scalar", "rsub.Tensor")
def _rsub(slicer: Slicer, node: Any, at: int) -> ExprNode:
    form = _compute_in(slicer, node, node.args)
    a, b = (operand(slicer, node, arg, at, form) for arg in node.args[:2])
    return cast(b - a, slicer.form(node))


@rule("reciprocal.default")
def _reciprocal(slicer: Slicer, node: Any, at: int) -> ExprNode:
    return 1.0 / operand(slicer, node, node.args[0], at, slicer.form(node))


@rule("relu.default")
def _relu(slicer: Slicer, node: Any, at: int) -> ExprNode:
    return f.relu(operand(slicer, node, node.args[0], at, slicer.form(node)))


@rule("log10.default")
def _log10(slicer: Slicer, node: Any, at: int) -> ExprNode:
    x = operand(slicer, node, node.args[0], at, wider(slicer.form(node)))
    return cast(apply("log", x) / float(np.log(10.0)), slicer.form(node))


@rule("pow.Tensor_Scalar")
def _power(slicer: Slicer, node: Any, at: int) -> ExprNode:
    form = slicer.form(node)
    x, by = operand(slicer, node, node.args[0], at, form), float(node.args[1])
    special = {2.0: lambda: x * x, 3.0: lambda: x * x * x, 0.5: lambda: apply("sqrt", x), 1.0: lambda: x,
               -1.0: lambda: 1.0 / x, -0.5: lambda: apply("rsqrt", x), -2.0: lambda: 1.0 / (x * x)}  # fmt: skip
    return special[by]() if by in special else apply("pow", x, constant(by, form))


RULES["pow.Tensor_Tensor"] = pointwise("pow")
RULES["pow.Scalar"] = pointwise("pow")


@rule("clamp.default", "clamp_min.default", "clamp_max.default", "clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def _clamp(slicer: Slicer, node: Any, at: int) -> ExprNode:
    """Clamp after rounding the limits to the format."""
    form = slicer.form(node)
    named = dict(zip(("self", "min", "max"), node.args, strict=False)) | dict(node.kwargs)
    if "clamp_max" in str(node.target):
        named = {"self": node.args[0], "max": node.args[1]}
    found = operand(slicer, node, named["self"], at, form)
    for key, op in (("min", "max"), ("max", "min")):
        if named.get(key) is not None:
            found = apply(op, found, operand(slicer, node, named[key], at, form))
    return found


@rule("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(slicer: Slicer, node: Any, at: int) -> ExprNode:
    form = slicer.form(node)
    condition = operand(slicer, node, node.args[0], at, FLOAT32)
    return where(condition, *(operand(slicer, node, arg, at, form) for arg in node.args[1:3]))


def _comparison(op: str) -> ElementRule:
    def compare(slicer: Slicer, node: Any, at: int) -> ExprNode:
        first = slicer.values[node.args[0]]
        if not first.is_floating_point():
            return slicer.known(node, at)
        form = FORMATS[str(first.dtype).removeprefix("torch.")]
        return apply(op, *(operand(slicer, node, arg, at, form) for arg in node.args[:2]))

    return compare


for _op in COMPARISONS:
    RULES[f"{_op}.Scalar"] = RULES[f"{_op}.Tensor"] = _comparison(_op)


@rule("logical_and.default", "bitwise_and.Tensor", "logical_or.default", "bitwise_or.Tensor", "logical_not.default",
      "bitwise_not.default")  # fmt: skip
def _logic(slicer: Slicer, node: Any, at: int) -> ExprNode:
    if any(slicer.values[arg].dtype != torch.bool for arg in node.args):
        return slicer.known(node, at)
    name = next(part for part in ("and", "or", "not") if f"_{part}" in str(node.target))
    return apply(name, *(operand(slicer, node, arg, at, FLOAT32) for arg in node.args))


@rule("_to_copy.default", "convert_element_type.default", "to.dtype")
def _convert(slicer: Slicer, node: Any, at: int) -> ExprNode:
    source = slicer.values[node.args[0]]
    if source.dtype == torch.bool and slicer.values[node].is_floating_point():
        return as_number(slicer.element(node.args[0], at), slicer.form(node))
    if not slicer.values[node].is_floating_point() or not source.is_floating_point():
        return slicer.known(node, at)
    return cast(slicer.element(node.args[0], at), slicer.form(node))


@rule("view.default", "_unsafe_view.default", "reshape.default", "permute.default", "transpose.int", "t.default",
      "expand.default", "unsqueeze.default", "squeeze.dim", "squeeze.dims", "squeeze.default", "slice.Tensor",
      "select.int", "clone.default", "alias.default", "detach.default", "cat.default", "stack.default", "flip.default",
      "repeat.default", "roll.default", "gather.default", "index_select.default", "lift_fresh_copy.default",
      "contiguous.default", "diagonal.default", "view_copy.default", "expand_copy.default", "permute_copy.default",
      "unsqueeze_copy.default", "squeeze_copy.dims", "slice_copy.Tensor", "select_copy.int", "transpose_copy.int",
      "alias_copy.default", "detach_copy.default", "t_copy.default")  # fmt: skip
def _view(slicer: Slicer, node: Any, at: int) -> ExprNode:
    return slicer.source(node, at)


@rule("getitem")
def _item(slicer: Slicer, node: Any, at: int) -> ExprNode:
    """Return an element of one result of an operator with several results: a split, a variance and mean, a row
    maximum."""
    whole, part = node.args
    name = str(whole.target).removeprefix("aten.")
    if name.startswith(("split", "unbind", "chunk")):
        return slicer.source(whole, at, part)
    if name == "var_mean.correction":
        return _moments(slicer, whole, node, at)[part]
    if name in ("max.dim", "min.dim") and part == 0:
        return _extreme(slicer, whole, at)
    raise NoRule


def rows(slicer: Slicer, node: Any, source: Any, dims: Any, at: int) -> list[ExprNode]:
    """Return the operand's elements that are reduced into element `at` of the result."""
    value = slicer.values[source]
    axes = sorted({d % value.ndim for d in dims} if dims else range(value.ndim)) if value.ndim else []
    if value.numel() > 1 << 22 or not value.numel():
        raise NoRule
    numbers = torch.arange(value.numel()).reshape(value.shape)
    kept = [d for d in range(value.ndim) if d not in axes]
    count = 1
    for axis in axes:
        count *= value.shape[axis]
    if count > (_SEQUENTIAL if slicer.short else LONGEST):
        raise NoRule
    table = numbers.permute(*kept, *axes).reshape(-1, count) if value.ndim else numbers.reshape(1, 1)
    return [slicer.element(source, int(number)) for number in table[at]]


def added(terms: list[ExprNode]) -> ExprNode:
    """Add the terms as kernels do: from the left, or pairwise if there are many."""
    return f.total(terms) if len(terms) <= _SEQUENTIAL else f.pairwise(terms)


def _dims(node: Any) -> Any:
    found = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    return [found] if isinstance(found, int) else found


@rule("sum.dim_IntList", "sum.default", "mean.dim", "mean.default")
def _sum(slicer: Slicer, node: Any, at: int) -> ExprNode:
    form = slicer.form(node)
    terms = [cast(x, wider(form)) for x in rows(slicer, node, node.args[0], _dims(node), at)]
    found = added(terms)
    if "mean" in str(node.target):
        found = found / float(len(terms))
    return cast(found, form)


@rule("amax.default", "amin.default", "max.default", "min.default")
def _extreme(slicer: Slicer, node: Any, at: int) -> ExprNode:
    op = "max" if "max" in str(node.target) else "min"
    found, *others = dict.fromkeys(rows(slicer, node, node.args[0], _dims(node), at))
    for other in others:
        found = apply(op, found, other)
    return found


def _moments(slicer: Slicer, node: Any, result: Any, at: int) -> tuple[ExprNode, ExprNode]:
    form = slicer.form(result)
    values = [cast(x, wider(form)) for x in rows(slicer, node, node.args[0], _dims(node), at)]
    correction = node.kwargs.get("correction", 1)
    below = len(values) - float(1 if correction is None else correction)
    middle = added(values) / float(len(values))
    squares = added([(x - middle) * (x - middle) for x in values])
    if below <= 0:
        raise NoRule
    return cast(squares / below, form), cast(middle, form)


@rule("var.correction")
def _variance(slicer: Slicer, node: Any, at: int) -> ExprNode:
    return _moments(slicer, node, node, at)[0]


@rule("mm.default", "addmm.default", "bmm.default", "mv.default", "dot.default")
def _dot(slicer: Slicer, node: Any, at: int) -> ExprNode:
    """Return a dot product if it is short, or of moderate length and between inputs or weights."""
    form, name = slicer.form(node), str(node.target)
    left, right = node.args[-2:] if "addmm" in name else node.args[:2]
    a, b = slicer.values[left], slicer.values[right]
    terms = a.shape[-1]
    if terms > _SEQUENTIAL and (slicer.short or not (terms <= TERMS and _near_inputs(left) and _near_inputs(right))):
        raise NoRule
    if "alpha" in node.kwargs or "beta" in node.kwargs or not terms:
        raise NoRule
    columns = b.shape[-1] if b.ndim > 1 else 1
    row, column = divmod(at, columns)
    batch = row // a.shape[-2] if a.ndim == 3 else 0
    wide = wider(form)
    found = added([
        cast(slicer.element(left, row * terms + k), wide)
        * cast(slicer.element(right, (batch * terms + k) * columns + column), wide)
        for k in range(terms)
    ])  # fmt: skip
    if "addmm" in name:
        found = operand(slicer, node, node.args[0], at, wide) + found
    return cast(found, form)


def _near_inputs(node: Any) -> bool:
    """True for an input, a weight, or a view of one."""
    while node.op == "call_function" and any(part in str(node.target) for part in ("permute", "view", "t.default")):
        node = node.args[0]
    return node.op in ("placeholder", "get_attr")
