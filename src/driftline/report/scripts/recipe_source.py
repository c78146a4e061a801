"""Recipes for Python programs of torch, TensorFlow and JAX."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from driftline.core.packages import TENSORFLOW
from driftline.core.program import SourceBundle
from driftline.core.quoting import string
from driftline.core.script_call import ScriptCall
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.programs.factory_text import (
    FactoryText,
    draws_random,
    read_factory,
    used_imports,
    without_last_name,
    without_usual_dtypes,
    writes_in_place,
)
from driftline.programs.literals import UNPACK, Literals
from driftline.programs.reached import reached_text
from driftline.report.scripts.calls import first_call
from driftline.report.scripts.parts import FILL, LAYOUT
from driftline.report.scripts.recipe import ROOM, Recipe, odd_numbers
from driftline.report.scripts.recipe_torch import torch_results, with_gradients

# Text of views, and of tensors that are not contiguous.
_STRANGE_LAYOUT = re.compile(
    r"permute|expand|unfold|strided|transpose|memory_format|channels_last|narrow|chunk|split|select|unbind|diagonal"
    r"|swap(?:axes|dims)|movedim|\.view|::|\.t\(|\.[Tm][TH]?\b|\w\[[^\]]*:"
)
_RETURNS_TUPLE = re.compile(r"return [^\n]+, \([^\n]*\)$", re.MULTILINE)  # a factory that ends with a tuple of inputs
ODD_NUMBERS = 'inf, nan = float("inf"), float("nan")'  # as a reduced program names them, whether it needs them or not
_PACKAGES = {"torch": ("torch",), "tensorflow": (TENSORFLOW, "numpy"), "jax": ("jax", "jaxlib", "numpy")}


def source_recipe(
    bundle: SourceBundle,
    framework: str,
    arrays: Arrays,
    target: Target,
    *,
    own_inputs: bool = False,
    grad: bool = False,
    seed: int = 0,
    room: int = ROOM,
    call: ScriptCall | None = None,
) -> Recipe:
    """Write the recipe of a Python program.

    `own_inputs`: use the example inputs of the factory instead of the given arrays. `grad`: the results include the
    gradients of inputs and weights. `call`: how the compiler is called; the target's first call by default.
    """
    parts = read_factory(bundle.text, bundle.entry_name) if len(bundle.files) == 1 else None
    if parts and _is_plain(parts, arrays, framework, own_inputs):
        base = _inlined(parts, framework, arrays, own_inputs, room, seed)
    elif own_inputs and _RETURNS_TUPLE.search(bundle.text):
        base = _with_own_inputs(bundle, framework, seed)
    else:
        base = _called(bundle, framework, arrays, room, seed)
    made = _with_results(base, framework, arrays, target, call or first_call(target, framework))
    if grad and framework == "torch":
        made = with_gradients(made, base, seed)
    text = "\n".join([*made.definitions, *made.setup, made.expected, made.got])
    return replace(made, imports=tuple(used_imports(made.imports, text)))


def _is_plain(parts: FactoryText, arrays: Arrays, framework: str, own_inputs: bool) -> bool:
    """True if the values describe the inputs completely: one tensor for each argument, in an ordinary layout."""
    if own_inputs:
        return True
    strange = framework == "torch" and any(
        _STRANGE_LAYOUT.search(t) for t in (*parts.inputs, *parts.needed(*parts.inputs))
    )
    shared = framework == "torch" and len(set(parts.inputs)) < len(parts.inputs)
    return not strange and not shared and len(parts.inputs) == len(arrays) and not any("." in name for name in arrays)


def _returns_twice(factory: str) -> bool:
    """True if a factory returns a name twice among its inputs, so that these inputs share memory."""
    returned = re.search(r"return [^\n]*?, [(\[]([^\n]*)[)\]]", factory)
    names = re.findall(r"\b[A-Za-z_]\w*\b(?!\s*[.(])", returned[1]) if returned else []
    return len(set(names)) < len(names)


# -- how the program and its inputs are made ---------------------------------------------------------------------------


def _inlined(parts: FactoryText, framework: str, arrays: Arrays, own_inputs: bool, room: int, seed: int) -> Recipe:
    literals = Literals("torch" if framework == "torch" else "numpy", room, brief=True)
    if own_inputs:
        making = parts.needed(parts.model, *parts.inputs)
        given = list(parts.inputs)
    else:
        making = parts.needed(parts.model)
        given = [literals.expression(name, array, "    ") for name, array in arrays.items()]
    if framework == "torch" and not any("default_dtype" in text for text in (*parts.definitions, *making)):
        making, given = ([without_usual_dtypes(text) for text in lines] for lines in (making, given))
    setup = [*making, f"function = {parts.model}", _listing(given)]
    seeded = any(line.split(".")[-1].startswith(("manual_seed(", "set_seed(", "seed(")) for line in making[:1])
    own = [without_last_name(text) for text in parts.definitions if text != ODD_NUMBERS]
    written = setup if own_inputs else setup[:-1]  # arrays drawn in place of the given ones have a seed already
    if not seeded and (draws_random(written) or draws_random(own)):
        setup = [*_seeding(framework, seed, [*setup, *own]), *setup]
    setup = [*_odd_numbers([*setup, *own]), *setup]
    definitions = [*own, *([UNPACK] if literals.packed and "unpack" not in _names(parts) else [])]
    imports = [*parts.imports, *_literal_imports(literals, arrays, framework)]
    changing = writes_in_place(parts.definitions)
    inputs = "copy.deepcopy(inputs)" if changing else "inputs"
    return Recipe(
        flavour=framework,
        packages=_PACKAGES[framework],
        imports=(*imports, *(["import copy"] if changing else [])),
        definitions=tuple(definitions),
        setup=tuple(setup),
        expected=f"{{}}(*{inputs})",
        got="",
        left_out=tuple(literals.left_out),
        inputs=inputs,
    )


def _names(parts: FactoryText) -> set[str]:
    return {word for text in parts.definitions for word in re.findall(r"^def (\w+)", text, re.MULTILINE)}


def _with_own_inputs(bundle: SourceBundle, framework: str, seed: int) -> Recipe:
    """Write a recipe that calls a factory of more than a few statements and uses the inputs that it makes."""
    imports, text = _program_text(bundle)
    changing = writes_in_place(text)
    inputs = "copy.deepcopy(inputs)" if changing else "inputs"
    return Recipe(
        flavour=framework,
        packages=_PACKAGES[framework],
        imports=(*imports, *(["import copy"] if changing else [])),
        definitions=tuple(text),
        setup=(*_seeding(framework, seed, text), f"function, inputs = {bundle.entry_name}()"),
        expected=f"{{}}(*{inputs})",
        got="",
        inputs=inputs,
    )


def _called(bundle: SourceBundle, framework: str, arrays: Arrays, room: int, seed: int) -> Recipe:
    """Write a recipe that calls a factory of more than a few statements and puts the given values into its example
    inputs.
    """
    torch = framework == "torch"
    literals = Literals("torch" if torch else "numpy", room, brief=True)
    entries = [
        f"        {string(name)}: {literals.expression(name, array, '        ')}," for name, array in arrays.items()
    ]
    body = ["    return {", *entries, "    }"] if entries else ["    return {}"]
    made = "\n".join(["def inputs():", *body])
    factory = bundle.text[bundle.text.find(f"def {bundle.entry_name}") :]
    laid_out = torch and (bool(_STRANGE_LAYOUT.search(factory)) or _returns_twice(factory))
    filling = FILL % (
        ("laid_out(example, next(values))", "    STORAGES.clear()\n") if laid_out else ("next(values)", "")
    )
    own, text = _program_text(bundle)
    imports = dict.fromkeys((*own, *_literal_imports(literals, arrays, framework)))
    return Recipe(
        flavour=framework,
        packages=_PACKAGES[framework],
        imports=tuple(imports),
        definitions=(*text, *([UNPACK] if literals.packed else []), made, *([LAYOUT] if laid_out else []), filling),
        setup=(*_seeding(framework, seed, text), f"function, example = {bundle.entry_name}()"),
        expected="call({}, example)",
        got="",
        left_out=tuple(literals.left_out),
        inputs="",
    )


def _listing(given: list[str]) -> str:
    line = f"inputs = [{', '.join(given)}]"
    if len(line) <= 110 and "\n" not in line:
        return line
    return "\n".join(["inputs = [", *(f"    {text}," for text in given), "]"])


def _seeding(framework: str, seed: int, parts: list[str]) -> list[str]:
    text = "\n".join(parts)
    lines = {"torch": [f"torch.manual_seed({seed})"], "tensorflow": [f"tf.random.set_seed({seed})"]}.get(framework, [])
    return [*lines, *([f"np.random.seed({seed})"] if "np.random." in text else [])]


def _odd_numbers(lines: list[str]) -> list[str]:
    """Return the line that defines `nan` and `inf`, unless the program defines them."""
    named = any(re.search(r"^(nan|inf)\b.*=", line, re.MULTILINE) for line in lines)
    return [] if named else odd_numbers(lines)


def _literal_imports(literals: Literals, arrays: Arrays, framework: str) -> list[str]:
    lines = ["import base64", "import zlib"] if literals.packed else []
    if framework != "torch" and any(a.dtype.name.startswith(("bfloat16", "float8")) for a in arrays.values()):
        lines.append("import ml_dtypes")
    if framework != "torch" or literals.needs_numpy:
        lines.append("import numpy as np")
    module = {"torch": "import torch", "tensorflow": "import tensorflow as tf", "jax": "import jax"}[framework]
    return [*lines, module]


def _program_text(bundle: SourceBundle) -> tuple[list[str], list[str]]:
    """Return the import lines of the entry file, and the rest of its text as far as the factory needs it.

    If the program has several files, imports stay in place and the files are written before the first import, after
    `from __future__`.
    """
    text, others = reached_text(bundle.text.strip(), bundle.entry_name), _siblings(bundle)
    body = ast.parse(text).body
    futures = [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    lines = text.splitlines()
    if not others:
        imports = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom)) and not futures]
        own = {at: lines[at - 1] for node in imports if (at := node.lineno) == node.end_lineno}
        own = {at: line for at, line in own.items() if ";" not in line and "#" not in line}
        left = "\n".join("" if at in own else line for at, line in enumerate(lines, 1))
        return [*own.values()], [re.sub(r"\n{4,}", "\n\n\n", left).strip("\n")]
    start = 0
    for node in body:
        remark = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if node not in futures and not remark:
            break
        start = node.end_lineno or 0
    return [], ["\n".join(lines[:start]), others, "\n".join(lines[start:])]


def _siblings(bundle: SourceBundle) -> str:
    """Return text that writes the other files of the program to a temporary folder before they are imported."""
    others = {name: text for name, text in bundle.files.items() if name != bundle.entry_file}
    if not others:
        return ""
    lines = ["# Files that the program imports.", "import pathlib", "import sys", "import tempfile", ""]
    lines += ["HOME = pathlib.Path(tempfile.mkdtemp())"]
    for name, text in sorted(others.items()):
        lines += [f"(HOME / {name!r}).parent.mkdir(parents=True, exist_ok=True)"]
        lines += [f"(HOME / {name!r}).write_text({text!r})"]
    return "\n".join([*lines, "sys.path.insert(0, str(HOME))", ""])


# -- how the results are got -------------------------------------------------------------------------------------------


def _with_results(base: Recipe, framework: str, arrays: Arrays, target: Target, call: ScriptCall | None) -> Recipe:
    """Fill in the expressions for both results. In `base`, `expected` is a call with a placeholder for the function."""
    if framework == "torch":
        return torch_results(base, target, call)
    base = (_tensorflow_base if framework == "tensorflow" else _jax_base)(base, arrays)
    if call is None or (call.gives_results and not base.inputs):
        return base
    expected = base.expected
    got = call.call if call.gives_results else expected.replace("function", call.call)
    if call.gives_results:  # arrays, and so are the others to be
        expected = f"[np.asarray(part) for part in {expected}]"
    return replace(
        base,
        packages=tuple(dict.fromkeys((*base.packages, *call.packages))),
        imports=(*base.imports, *call.imports),
        definitions=(*base.definitions, *([call.text] if call.text else [])),
        setup=(*call.setup, *base.setup),
        expected=expected,
        got=got,
    )


def _tensorflow_base(base: Recipe, arrays: Arrays) -> Recipe:
    expected = f"tf.nest.flatten({base.expected.format('function')})"
    imports = (*base.imports, "import numpy as np", "import tensorflow as tf")
    return replace(base, flavour="numpy", imports=imports, expected=expected)


def _jax_base(base: Recipe, arrays: Arrays) -> Recipe:
    wide = any(a.dtype.name in ("float64", "int64", "uint64", "complex128") for a in arrays.values())
    return replace(
        base,
        flavour="numpy",
        imports=(*base.imports, "import jax", "import numpy as np"),
        setup=(*(['jax.config.update("jax_enable_x64", True)'] if wide else []), *base.setup),
        expected=f"jax.tree.leaves({base.expected.format('function')})",
    )
