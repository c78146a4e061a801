"""Screen a program as text: is it Python, and does it use only what programs may use?

This is not a protection (the sandbox is): it saves running programs that cannot be tests, and names their fault.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from driftline.generate.authored.names import FORBIDDEN_CALL, FORBIDDEN_IMPORT, NOT_PYTHON, Unusable

LONGEST = 40_000  # characters
DEEPEST = 500  # nested expressions; Python's own limit depends on how deep the stack of the caller is
_IMPORTS = (
    "math", "typing", "typing_extensions", "collections", "functools", "itertools", "operator", "numpy",
    "copy", "dataclasses", "enum", "numbers", "warnings", "random", "__future__", "abc", "string", "cmath", "fractions",
)  # fmt: skip
# Parts of a framework that start processes, use the network or files, compile by themselves, or change how others
# compute; the names of frameworks are those of forms.
_FORBIDDEN: Mapping[str, tuple[str, ...]] = {
    "torch": (
        "compile", "load", "save", "hub", "distributed", "multiprocessing", "jit", "package", "_dynamo", "_inductor",
        "_export", "export", "onnx", "cpp_extension", "classes", "load_library", "tensorboard", "data", "_C", "mtia",
        "from_file", "backends", "use_deterministic_algorithms", "library", "testing",
    ),
    "jax": (
        "distributed", "debug", "profiler", "pure_callback", "io_callback", "experimental", "monitoring", "export",
        "extend", "ffi", "interpreters", "_src", "clear_caches", "disable_jit", "enable_x64", "debug_nans",
        "default_matmul_precision", "debug_infs", "transfer_guard", "default_device", "tools", "collect_profile",
    ),
    "tensorflow": (
        "io", "saved_model", "distribute", "data", "py_function", "numpy_function", "py_func", "config", "debugging",
        "profiler", "summary", "train", "lite", "estimator", "sysconfig", "load_library", "load_op_library", "python",
        "experimental", "mlir", "xla", "print", "queue", "tpu", "feature_column", "test", "autograph", "device",
    ),
}  # fmt: skip
_SETTER = ["jax", "config", "update"]
_SETTING = "jax_enable_x64"  # the one that a program may change: Driftline's own do
_CALLS = (
    "eval", "exec", "compile", "open", "__import__", "input", "breakpoint", "exit", "quit", "globals", "locals", "vars",
    "memoryview",
)  # fmt: skip
_DUNDERS = ("__init__", "__call__", "__name__", "__class__", "__version__", "__main__", "__doc__", "__dict__")


def screened(text: str, form: str) -> ast.Module:
    """Return the program as a tree. `form` is the framework that it may use. Raises `Unusable`."""
    if len(text) > LONGEST:
        raise Unusable(NOT_PYTHON, f"the program has more than {LONGEST:,} characters")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise Unusable(NOT_PYTHON, f"{type(error).__name__}: {error.msg} (line {error.lineno})") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unusable(NOT_PYTHON, f"{type(error).__name__}: {error}") from error
    if not tree.body:
        raise Unusable(NOT_PYTHON, "there is no program in the answer")
    if _depth(tree) > DEEPEST:
        raise Unusable(NOT_PYTHON, f"expressions are nested more than {DEEPEST} deep")
    imported = _imported(tree)
    for node in ast.walk(tree):
        _look_at(node, imported, form)
    return tree


def _depth(tree: ast.Module) -> int:
    """Return the nesting depth of the tree."""
    depth, level = 0, [*ast.iter_child_nodes(tree)]
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _imported(tree: ast.Module) -> dict[str, list[str]]:
    """Return what imported names stand for: F -> torch, nn, functional."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                path = name.name.split(".")
                found[name.asname or path[0]] = path if name.asname else path[:1]
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                found[name.asname or name.name] = [*node.module.split("."), name.name]
    return found


def _look_at(node: ast.AST, imported: Mapping[str, list[str]], form: str) -> None:
    if isinstance(node, ast.Import):
        for name in node.names:
            _require_import(name.name, form)
    elif isinstance(node, ast.ImportFrom):
        if node.level:
            raise Unusable(FORBIDDEN_IMPORT, f"a relative import; import {form} alone")
        for name in node.names:
            _require_import(f"{node.module}.{name.name}", form)
    elif isinstance(node, ast.Attribute):
        if node.attr.startswith("__") and node.attr not in _DUNDERS:
            raise Unusable(FORBIDDEN_CALL, f"{node.attr} may not be used")
        if path := _path(node, imported):
            if not isinstance(node.ctx, ast.Load):
                raise Unusable(FORBIDDEN_CALL, f"{'.'.join(path)} may not be changed")
            if path[0] == form:
                _require_part(path)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            raise Unusable(FORBIDDEN_CALL, f"{node.func.id} may not be called")
        if _path(node.func, imported) == _SETTER and not _sets_precision(node):
            raise Unusable(FORBIDDEN_CALL, f"jax.config.update may set {_SETTING} alone")


def _sets_precision(node: ast.Call) -> bool:
    named = node.args[0] if node.args else None
    return isinstance(named, ast.Constant) and named.value == _SETTING


def _require_import(name: str, form: str) -> None:
    parts = name.split(".")
    if parts[0] not in (form, *_IMPORTS):
        raise Unusable(FORBIDDEN_IMPORT, f"{parts[0]} may not be imported; import {form} alone")
    if parts[0] == form:
        _require_part(parts)


def _require_part(parts: list[str]) -> None:
    for part in parts[1:4]:
        if part in _FORBIDDEN[parts[0]] or part.startswith("set_"):
            raise Unusable(FORBIDDEN_CALL, f"{parts[0]}'s {part} may not be used")


def _path(node: ast.expr, imported: Mapping[str, list[str]]) -> list[str]:
    """Return `F.relu` as torch, nn, functional, relu; an empty list if the expression does not begin with an import."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [*imported[node.id], *reversed(parts)] if isinstance(node, ast.Name) and node.id in imported else []
