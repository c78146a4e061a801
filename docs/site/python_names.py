"""The reference of the public Python names, as Markdown, read from the source without importing it."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
PACKAGES = ("driftline", "driftline.testing", "driftline.inductor")


def python_pages() -> dict[str, str]:
    """Markdown by the name of the package: what it is, and each public name with signature and docstring."""
    return {package: _page(package) for package in PACKAGES}


def public_names(package: str) -> dict[str, str]:
    """The names that a package offers, with the modules that they are loaded from."""
    for node in _tree(package).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("_PUBLIC", "_LATE"):
            found = ast.literal_eval(node.value)
            assert isinstance(found, dict)
            return found
    raise AssertionError(f"{package} has no table of public names")


def _page(package: str) -> str:
    parts = [f"# {package}", inspect.cleandoc(ast.get_docstring(_tree(package)) or "")]
    for name, module in sorted(public_names(package).items(), key=lambda item: item[0].lower()):
        parts.append(_entry(name, module))
    return "\n\n".join(parts) + "\n"


def _file(module: str) -> Path:
    path = SOURCE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _tree(module: str) -> ast.Module:
    return ast.parse(_file(module).read_text())


def _find(name: str, module: str) -> tuple[ast.stmt, str]:
    """The definition of a name, followed through the imports of packages, and the module that holds it."""
    for node in reversed(_tree(module).body):  # the last definition: those before it are overloads
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node, module
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            return _find(name, node.module)
        if isinstance(node, ast.Assign | ast.AnnAssign) and _bound(node) == name:
            return node, module
    raise AssertionError(f"{module} defines no {name}")


def _bound(node: ast.Assign | ast.AnnAssign) -> str:
    return ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)


def _entry(name: str, module: str) -> str:
    node, module = _find(name, module)
    if isinstance(node, ast.ClassDef):
        return _class(node, module)
    if isinstance(node, ast.FunctionDef):
        return f"## {name}\n\n{_signature(node)}\n\n{_words(node)}"
    entry = f"## {name}\n\n```python\n{ast.unparse(node)}\n```"
    value = getattr(node, "value", None)
    if isinstance(value, ast.Call):  # an instance: its class says what it is
        made, _ = _find(ast.unparse(value.func), module)
        assert isinstance(made, ast.ClassDef)
        entry += f"\n\n{_words(made)}"
    return entry


def _class(node: ast.ClassDef, module: str) -> str:
    lines = _file(module).read_text().splitlines()
    bases = f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""
    shown = "\n".join([f"class {node.name}{bases}:", *(_fields(node, lines) or ["    ..."])])
    parts = [f"## {node.name}", f"```python\n{shown}\n```", _words(node)]
    for each in _methods(node, module):
        if each.name == "__init__" and not each.args.args[1:] and not each.args.kwonlyargs:
            continue
        parts += [f"### {node.name}.{each.name}", _signature(each), _words(each)]
    return "\n\n".join(part for part in parts if part)


def _methods(node: ast.ClassDef, module: str) -> list[ast.FunctionDef]:
    """The public methods of a class, and after them those of the bases that a module of the same package defines."""
    found = [one for one in node.body if isinstance(one, ast.FunctionDef)]
    own = {one.name: one for one in found if not one.name.startswith("_") or one.name == "__init__"}
    package = module.rpartition(".")[0]
    imported = {
        alias.name: one.module
        for one in _tree(module).body
        if isinstance(one, ast.ImportFrom) and one.module and one.module.startswith(f"{package}.")
        for alias in one.names
    }
    for name in map(ast.unparse, node.bases):
        if name in imported:
            base, where = _find(name, imported[name])
            assert isinstance(base, ast.ClassDef)
            own |= {one.name: one for one in _methods(base, where) if one.name not in own}
    return sorted(own.values(), key=lambda one: one.name != "__init__")


def _fields(node: ast.ClassDef, lines: list[str]) -> list[str]:
    """The public fields as they are written, with the comments beside and above them."""
    shown = []
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and not ast.unparse(each.target).startswith("_"):
            first = each.lineno - 1
            while lines[first - 1].strip().startswith("#"):
                first -= 1
            shown += lines[first : each.end_lineno]
    return shown


def _signature(node: ast.FunctionDef) -> str:
    bare = ast.FunctionDef(
        name=node.name,
        args=node.args,
        body=[ast.Expr(ast.Constant(...))],
        decorator_list=[
            each for each in node.decorator_list if ast.unparse(each) in ("property", "classmethod", "staticmethod")
        ],
        returns=node.returns,
        type_params=[],
    )
    text = ast.unparse(ast.fix_missing_locations(bare)).removesuffix("\n    ...")
    if len(text) > 100:
        head, _, rest = text.partition("(")
        arguments, _, result = rest.rpartition(")")
        text = f"{head}(\n    {_broken(arguments)}\n){result}"
    return f"```python\n{text} ...\n```"


def _broken(arguments: str) -> str:
    """One argument on a line."""
    depth, made = 0, ""
    for sign in arguments:
        depth += (sign in "([{") - (sign in ")]}")
        made += ",\n   " if sign == "," and not depth else sign
    return made + ","


def _words(node: ast.FunctionDef | ast.ClassDef) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")
