"""Recognises texts of a torch.export archive that torch turns into code, and that are limited to a harmless syntax.

`torch.export.load` hands sizes to sympy, which evaluates them as Python. `ExportedProgram.module()` writes guards and
names of arguments and parameters into the text of a function and executes that. The functions here return True for
texts of the kind that torch's exporter writes, which call nothing but arithmetic.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

_LONGEST = 1 << 16  # characters of one text
# The names that sympy's `srepr` writes for sizes, and the functions that torch adds to sympy.
_SYMPY = frozenset(
    "Symbol Integer Float Rational Add Mul Pow Max Min Mod Abs floor ceiling Equality Unequality Eq Ne Lt Le Gt Ge"
    " StrictLessThan StrictGreaterThan LessThan GreaterThan And Or Not Xor Piecewise ExprCondPair Tuple"
    " BooleanTrue BooleanFalse true false Infinity NegativeInfinity"
    " FloorDiv ModularIndexing Where PythonMod CleanDiv CeilToInt FloorToInt CeilDiv LShift RShift PowByNatural"
    " FloatPow FloatTrueDiv IntTrueDiv IsNonOverlappingAndDenseIndicator TruncToFloat TruncToInt RoundToInt"
    " RoundDecimal ToFloat Identity BitwiseFn_bitwise_and BitwiseFn_bitwise_or BitwiseFn_bitwise_xor"
    " OpaqueUnaryFn_sqrt OpaqueUnaryFn_exp OpaqueUnaryFn_log OpaqueUnaryFn_log2 OpaqueUnaryFn_sin OpaqueUnaryFn_cos"
    " OpaqueUnaryFn_tan OpaqueUnaryFn_asin OpaqueUnaryFn_acos OpaqueUnaryFn_atan OpaqueUnaryFn_sinh OpaqueUnaryFn_cosh"
    " OpaqueUnaryFn_tanh".split()
)
_ASSUMPTIONS = ("integer", "positive", "negative", "nonnegative", "nonzero", "real", "finite", "precision", "evaluate")
_PYTHON = frozenset(
    "max min abs int float round bool IsNonOverlappingAndDenseIndicator cast_symbool_to_symint_guardless"
    " math.isnan math.floor math.ceil math.trunc math.sqrt math.pow math.log2 math.log math.exp math.fabs math.inf"
    " math.nan torch.sym_max torch.sym_min torch.sym_ite torch.sym_not torch.sym_int torch.sym_float"
    " torch._sym_sqrt torch.sym_sqrt".split()
)
_MEASURES = ("size", "stride", "storage_offset", "dim")
_ARITHMETIC = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop, ast.Load, ast.Tuple,
)  # fmt: skip
_LETTERS = re.compile(r"[\w '()\[\],.+*/%<>=!&|~^:-]*", re.ASCII)  # no comments, no other quotes, one line
_PLAIN_TEXT = re.compile(r"[\w .:/+-]*", re.ASCII)
_IMPORTED = re.compile(r"(torch|transformers)(\.[a-zA-Z]\w*)*:[a-zA-Z]\w*", re.ASCII)
_FACTORIES = {("builtins", name) for name in ("list", "dict", "set", "tuple", "int", "float", "bool", "str")} | {
    ("collections", name) for name in ("OrderedDict", "deque", "Counter")
}
_OPERATOR = re.compile(
    # a registered operator: namespace, name, overload
    r"torch\.ops\.(?!__|load_library\b|import_module\b|loaded_libraries\b)\w+"
    r"\.([a-zA-Z]\w*|_[a-zA-Z]\w*|__i?(and|or|xor|lshift|rshift)__)\.[a-zA-Z]\w*"
    r"|torch\.ops\.higher_order\.[a-zA-Z]\w*"
    # arithmetic on sizes
    r"|_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|xor|not_|invert|lshift"
    r"|rshift|getitem)"
    r"|math\.(trunc|ceil|floor|sqrt|pow|log|log2|exp|fabs|sin|cos|tan|asin|acos|atan|sinh|cosh|tanh)"
    r"|torch\.(sym_(not|int|float|ite|max|min|sqrt|sum)|_sym_\w+)"
    # functions of Python that graphs may call, which change how torch computes
    r"|torch\._functorch\.predispatch\.(_(add|remove)_batch_dim|_vmap_(in|de)crement_nesting|lazy_load_decompositions"
    r"|_(enter|exit)_dual_level|_make_dual|_unpack_dual|_jvp_(in|de)crement_nesting)"
    r"|torch\._C\._set_grad_enabled|torch\.amp\.autocast_mode\._(enter|exit)_autocast",
    re.ASCII,
)


def is_size(text: str) -> bool:
    """True for a size expression as torch writes it: numbers, symbols, and known harmless functions of sympy."""
    return _parses(text, _only_sympy)


def is_guard(text: str) -> bool:
    """True for a guard as torch writes it: a comparison of the sizes of inputs."""
    return _parses(text, _only_paths)


def is_operator(name: str) -> bool:
    """True for the name of an operator that a graph may call. Torch looks such names up in its own modules."""
    return bool(_OPERATOR.fullmatch(name))


def is_plain(text: str) -> bool:
    """True for text that can be put between quotes without ending the string."""
    return not re.search(r"[\"'\\\x00-\x1f\x7f\u2028\u2029]", text)


def in_structure(text: str) -> Iterator[str]:
    """Yield what is suspicious in the description of a nested container (JSON with JSON inside)."""
    pending: list[Any] = [text]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            inner = _loaded(value)
            if isinstance(inner, dict | list):
                pending.append(inner)
            elif not is_plain(value if inner is None else str(inner)):
                yield f"the key {value!r}"
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            yield from _in_container(value)
            pending += [*value.keys(), *value.values()]


def _in_container(value: dict[str, Any]) -> Iterator[str]:
    if "__enum__" in value and not _IMPORTED.fullmatch(str(value.get("fqn"))):
        yield f"the class {value.get('fqn')!r}"
    if "default_factory_module" in value or "default_factory_name" in value:
        factory = (value.get("default_factory_module"), value.get("default_factory_name"))
        if factory not in _FACTORIES:
            yield f"the function {'.'.join(map(str, factory))!r}"


def keywords_of(text: str) -> list[Any]:
    """Return the names of the keyword arguments in the description of a program's inputs."""
    try:
        arguments = json.loads(text)[1]
        if arguments["type"] != "builtins.tuple" or len(arguments["children_spec"]) != 2:
            return []
        keywords = arguments["children_spec"][1]
        found = json.loads(keywords["context"]) if keywords["type"] == "builtins.dict" else []
        return list(found)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return []


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parses(text: str, allowed: Callable[[ast.expr], bool]) -> bool:
    if len(text) > _LONGEST or not _LETTERS.fullmatch(text):
        return False
    try:
        return allowed(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _only_sympy(tree: ast.expr) -> bool:
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _SYMPY or not _known_keywords(node):
                return False
            if node.func.id in ("Symbol", "Float", "Integer", "Rational"):  # the only ones that take text
                if not all(_is_text(one) or _is_number(one) for one in node.args):
                    return False
                continue
            pending += node.args
        elif isinstance(node, ast.Name):
            if node.id.startswith("_"):
                return False
        elif not _is_number(node):
            if not isinstance(node, _ARITHMETIC):
                return False
            pending += ast.iter_child_nodes(node)
    return True


def _known_keywords(call: ast.Call) -> bool:
    return all(one.arg in _ASSUMPTIONS and isinstance(one.value, ast.Constant) for one in call.keywords)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(_PLAIN_TEXT.fullmatch(node.value))


def _is_number(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        node = node.operand
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool | int | float))


def _only_paths(tree: ast.expr) -> bool:
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            if node.keywords or not (_is_path(node) or ast.unparse(node.func) in _PYTHON):
                return False
            pending += node.args
        elif isinstance(node, ast.Attribute | ast.Subscript):
            if not (_is_path(node) or ast.unparse(node) in _PYTHON):
                return False
        elif isinstance(node, ast.Name):
            if node.id not in ("L", "inf", "nan"):
                return False
        elif not (_is_number(node) or _is_text(node)):
            if not isinstance(node, _ARITHMETIC):
                return False
            pending += ast.iter_child_nodes(node)
    return True


def _is_measure(node: ast.expr) -> bool:
    """True for `L['x'].size`."""
    return isinstance(node, ast.Attribute) and node.attr in _MEASURES and _is_path(node.value)


def _is_path(node: ast.expr) -> bool:
    """True for `L['x'][0].shape[1]` and `L['x'].size()[1]`: attributes, items and measures of an input."""
    while not (isinstance(node, ast.Name) and node.id == "L"):
        inner = _one_step_of_path(node)
        if inner is None:
            return False
        node = inner
    return True


def _one_step_of_path(node: ast.expr) -> ast.expr | None:
    """Return the expression before the last step of a path; `None` if the step is no attribute, item or measure."""
    if isinstance(node, ast.Attribute) and not node.attr.startswith("__"):
        return node.value
    if isinstance(node, ast.Subscript) and (_is_text(node.slice) or _is_number(node.slice)):
        return node.value
    if isinstance(node, ast.Call) and not node.args and not node.keywords and _is_measure(node.func):
        return node.func
    return None
