"""Write how a script passes a torch program to a compiler: by `torch.compile` or a similar call, or by a function of a
few lines.
"""

from __future__ import annotations

import re
from dataclasses import replace

from driftline.core.script_call import ScriptCall
from driftline.core.target import Target
from driftline.report.scripts.parts import ON_CUDA, WITH_GRADIENTS, WITHOUT_ONEDNN
from driftline.report.scripts.recipe import Recipe

# Text of a module that may write to its own tensors in a call.
_HAS_STATE = re.compile(r"register_buffer|\bself\.\w+(?:\.\w+_\(|\[[^\]]*\]\s*=[^=]|\s*[-+*/%|&^@]=)")
_LEAVES = "from torch.utils._pytree import tree_leaves"


def torch_results(base: Recipe, target: Target, call: ScriptCall | None) -> Recipe:
    """Fill in the expressions for both results. In `base`, `expected` is a call with a placeholder for the function."""
    first = ["torch.set_grad_enabled(False)"] if _may_derive(base) else []
    base = replace(base, setup=(*first, *base.setup))
    if call is None:
        return replace(base, expected=base.expected.format("function"))
    if call.gives_results:
        return _through(base, call)
    base = replace(
        base,
        packages=tuple(dict.fromkeys((*base.packages, *call.packages))),
        imports=(*base.imports, *call.imports),
        definitions=(*base.definitions, *([call.text] if call.text else [])),
        setup=(*call.setup, *base.setup),
    )
    if target.device != "cpu":
        return _on_cuda(base, target, call.call)
    # The compiled module must not see what the expected run has written.
    function = "copy.deepcopy(function)" if _is_module(base) and _HAS_STATE.search(_text(base)) else "function"
    imports = (*base.imports, "import copy")
    got = base.expected.format(call.call)
    return replace(base, imports=imports, expected=base.expected.format(function), got=got)


def _on_cuda(base: Recipe, target: Target, compiled: str) -> Recipe:
    """Compute the expected results on the CPU and the compiler's on the GPU."""
    declared = dict(target.options).get("arithmetic", "").split("+")
    text = ON_CUDA.format(
        tf32="tf32" in declared,
        half="half-accumulation" in declared,
        compiled=compiled,
    )
    return replace(
        base,
        imports=(*base.imports, "import copy", "from torch.utils._pytree import tree_map_only"),
        definitions=(*base.definitions, text),
        expected=base.expected.format("function"),
        got=base.expected.format("on_cuda(function)"),
    )


_MODULE = """\
class AsModule(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)
"""
_AS_MODULE = "function = function if isinstance(function, torch.nn.Module) else AsModule(function)"


def without_onednn(recipe: Recipe) -> Recipe:
    """Compute the expected results with torch's own kernels instead of oneDNN's."""
    return replace(
        recipe,
        definitions=(*recipe.definitions, WITHOUT_ONEDNN),
        expected=f"without_onednn(lambda: {recipe.expected})",
    )


def with_gradients(recipe: Recipe, base: Recipe, seed: int) -> Recipe:
    """Extend both results by the gradients of inputs and weights. `base` has the call without its function."""

    def both(call: str) -> str:
        if "on_cuda(" in call:
            return ""  # weights and their gradients are on two devices: too much for a few lines
        before, after = base.expected.split("{}")
        function = call.removeprefix(before).removesuffix(after)
        return _called(base.expected, "with_gradients", function) if call else ""

    modules = _is_module(base)
    text = WITH_GRADIENTS.format(
        fresh="    function.zero_grad()\n" if modules else "",
        weights=", *function.parameters()" if modules else "",
        seed=seed,
    )
    return replace(
        recipe,
        imports=(*recipe.imports, "from torch.utils._pytree import tree_leaves, tree_map_only", *_partial(base)),
        definitions=(*recipe.definitions, text),
        setup=tuple(line for line in recipe.setup if "set_grad_enabled" not in line),
        expected=both(recipe.expected),
        got=both(recipe.got),
    )


def _through(base: Recipe, call: ScriptCall) -> Recipe:
    """Fill in the results of a call that compiles the program and runs it in one function."""
    base = as_module(base) if call.module else base
    expected = base.expected.format("function")
    if call.arrays:
        expected = f"[tensor.numpy() for tensor in tree_leaves({expected})]"
    elif call.tensors:
        expected = f"tree_leaves({expected})"
    return replace(
        base,
        flavour="numpy" if call.arrays else "torch",
        packages=tuple(dict.fromkeys((*base.packages, *call.packages, *(["numpy"] if call.arrays else [])))),
        imports=(*base.imports, *call.imports, *([_LEAVES] if "tree_leaves" in expected else []), *_partial(base)),
        definitions=(*base.definitions, call.text),
        setup=(*call.setup, *base.setup),
        expected=expected,
        got=_called(base.expected, call.function, "function"),
    )


def _called(call: str, name: str, function: str) -> str:
    """Return `name(function, *inputs)`, or the equivalent if `call` assembles the inputs itself."""
    if call.startswith("{}("):
        return call.replace("{}(", f"{name}({function}, ", 1)
    return call.replace("{}", f"partial({name}, {function})", 1)


def _partial(base: Recipe) -> tuple[str, ...]:
    return () if base.expected.startswith("{}(") else ("from functools import partial",)


def as_module(base: Recipe) -> Recipe:
    """Wrap a plain function in a module, which exporters require."""
    called = any(line.startswith(("function, example = ", "function, inputs = ")) for line in base.setup)
    if called and not re.search(r"\bnn\.[A-Z]|\.eval\(\)", _text(base)):  # else it is a module, as far as text can tell
        return replace(base, definitions=(*base.definitions, _MODULE), setup=(*base.setup, _AS_MODULE))
    name = _plain_function(base)
    if not name:
        return base
    forward = f"    forward = staticmethod({name})\n"
    if name.startswith("torch"):  # exporters ask for a signature, which builtins do not have
        forward = f"    def forward(self, *inputs):\n        return {name}(*inputs)\n"
    module = f"class Program(torch.nn.Module):\n{forward}"
    setup = tuple("function = Program().eval()" if line == f"function = {name}" else line for line in base.setup)
    return replace(base, definitions=(*base.definitions, module), setup=setup)


def _plain_function(base: Recipe) -> str:
    """Return the name of the function that the program consists of, or the lambda; empty if the program is a module."""
    line = next((line for line in base.setup if line.startswith("function = ")), "")
    name = line.removeprefix("function = ")
    if name.startswith("lambda"):
        return name
    known = any(re.search(rf"^def {re.escape(name)}\(", text, re.MULTILINE) for text in base.definitions)
    return name if name.isidentifier() and known else name if re.fullmatch(r"torch[\w.]*\.[a-z_]\w*", name) else ""


def _may_derive(base: Recipe) -> bool:
    """True if there may be something to differentiate by: the program is a module, or its text has parameters or
    `requires_grad`.
    """
    return not _plain_function(base) or bool(re.search(r"requires_grad|Parameter|nn\.[A-Z]", _text(base)))


def _text(base: Recipe) -> str:
    return "\n".join([*base.definitions, *base.setup])


def _is_module(base: Recipe) -> bool:
    return not _plain_function(base) and any(
        "Module" in text or "nn." in text for text in (*base.definitions, *base.setup)
    )
