"""How a torch program reaches a compiler in a script: a call of torch's own, or a function of a few lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from driftline.core.target import Target
from driftline.programs.inductor_options import BOOLEAN, inductor_config
from driftline.programs.recipe import Recipe
from driftline.programs.script_parts import (
    AOTINDUCTOR,
    EXECUTORCH,
    EXPORT,
    LITERT,
    ON_CUDA,
    TORCHAX,
    TORCHSCRIPT,
    WITH_GRADIENTS,
    WITHOUT_ONEDNN,
    runner,
    xla_arguments,
)

_BACKENDS = {"aot_eager": "aot_eager", "eager": "eager", "aot_eager_decomp": "aot_eager_decomp_partition"}
_LEAVES = "from torch.utils._pytree import tree_leaves"


@dataclass(frozen=True)
class Route:
    """A function of a script that compiles a torch program and runs it: `name(function, *inputs)`."""

    name: str
    text: str
    imports: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    arrays: bool = False  # it returns a list of arrays, not tensors in the program's own structure
    tensors: bool = False  # it returns a list of tensors
    setup: tuple[str, ...] = ()
    module: bool = True  # it takes nothing but modules


def torch_results(base: Recipe, target: Target) -> Recipe:
    """Fill in both results. Until here `expected` is a call with a place for the function."""
    options = dict(target.options)
    first = ["torch.set_grad_enabled(False)"] if _may_derive(base) else []
    if target.backend == "inductor" and options.get("freezing") == "true":
        # It is read while the program is traced, where the `options` of torch.compile are not known.
        first.append("torch._inductor.config.freezing = True")
    base = replace(base, setup=(*first, *base.setup))
    compiled = torch_compile(target.backend, options)
    if compiled and target.device != "cpu":
        return _on_cuda(base, target, compiled)
    if compiled:
        return replace(base, expected=base.expected.format("function"), got=base.expected.format(compiled))
    route = _route(target)
    return _through(base, route) if route else replace(base, expected=base.expected.format("function"))


def _on_cuda(base: Recipe, target: Target, compiled: str) -> Recipe:
    """Expected on the processor, got on the GPU."""
    declared = dict(target.options).get("arithmetic", "").split("+")
    text = ON_CUDA.format(
        tf32="tf32" in declared,
        half="half-accumulation" in declared,
        compiled="function" if target.backend == "eager" else compiled,
    )
    return replace(
        base,
        imports=(*base.imports, "import copy", "from torch.utils._pytree import tree_map_only"),
        definitions=(*base.definitions, text),
        expected=base.expected.format("function"),
        got=base.expected.format("on_cuda(function)"),
    )


def without_onednn(recipe: Recipe) -> Recipe:
    """What should come out, by torch's own kernels."""
    return replace(
        recipe,
        definitions=(*recipe.definitions, WITHOUT_ONEDNN),
        expected=f"without_onednn(lambda: {recipe.expected})",
    )


def with_gradients(recipe: Recipe, base: Recipe, seed: int) -> Recipe:
    """Both passes: the results and the gradients of inputs and weights. `base` has the call without its function."""

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


def torch_compile(backend: str, options: Mapping[str, str]) -> str:
    """The compiled function, for what goes through `torch.compile`."""
    if backend == "inductor" and "forbid" not in options:
        return f"torch.compile(function{inductor_arguments(options)})"
    if backend in _BACKENDS or backend.startswith("dynamo:"):
        return f'torch.compile(function, backend="{_BACKENDS.get(backend) or backend.removeprefix("dynamo:")}")'
    return ""


def inductor_arguments(options: Mapping[str, str]) -> str:
    dynamic = f", dynamic={BOOLEAN[options['dynamic']]}" if options.get("dynamic") in BOOLEAN else ""
    config = inductor_config(options)
    return dynamic + (f", options={config!r}" if config else "")


# -- routes ------------------------------------------------------------------------------------------------------------


def _route(target: Target) -> Route | None:
    options = dict(target.options)
    match target.backend:
        case "torchscript":
            return _torchscript(options)
        case "aotinductor":
            config = inductor_config(options)
            text = AOTINDUCTOR.format(config=f", inductor_configs={config!r}" if config else "")
            return Route("aotinductor", text, ("import torch._inductor",))
        case "executorch":
            return _executorch(options)
        case "xla":
            return _torchax(options)
        case "tflite":
            return Route("litert", LITERT, ("import litert_torch",), ("litert-torch", "ai-edge-litert"), arrays=True)
    if run := runner(target):
        ran = run.text or f"def compiled(model, inputs):\n    return {run.call}"
        packages = ("onnx", "onnxscript", *run.packages)
        return Route("converted", f"{ran.strip()}\n\n\n{EXPORT}", run.imports, packages, arrays=True)
    return None


def _torchscript(options: Mapping[str, str]) -> Route:
    traced = options.get("mode") == "trace"
    take = "torch.jit.trace(function, inputs, check_trace=False)" if traced else "torch.jit.script(function)"
    frozen = options.get("freeze", "true") == "true"
    # A function is scripted as it is; it is traced as a module, which can be frozen.
    return Route("torchscript", TORCHSCRIPT.format(take=take, freeze=_FREEZE if frozen else ""), module=traced)


_FREEZE = """\
    if isinstance(graph, torch.jit.ScriptModule) and not graph.training:
        graph = torch.jit.optimize_for_inference(torch.jit.freeze(graph))
"""


def _executorch(options: Mapping[str, str]) -> Route:
    imports = ["from executorch.exir import to_edge_transform_and_lower", "from executorch.runtime import Runtime"]
    delegate = options.get("delegate") == "xnnpack"
    if delegate:
        module = "executorch.backends.xnnpack.partition.xnnpack_partitioner"
        imports.append(f"from {module} import XnnpackPartitioner")
    text = EXECUTORCH.format(partitioner=", partitioner=[XnnpackPartitioner()]" if delegate else "")
    return Route("executorch", text, tuple(imports), ("executorch",), tensors=True)


def _torchax(options: Mapping[str, str]) -> Route:
    return Route(
        "xla",
        TORCHAX.format(options=xla_arguments(options)),
        ("import jax", "from unittest import mock"),
        ("jax", "jaxlib", "torchax"),
        arrays=True,
        setup=('jax.config.update("jax_enable_x64", True)',),
    )


def _through(base: Recipe, route: Route) -> Recipe:
    base = _as_module(base) if route.module else base
    expected = base.expected.format("function")
    if route.arrays:
        expected = f"[tensor.numpy() for tensor in tree_leaves({expected})]"
    elif route.tensors:
        expected = f"tree_leaves({expected})"
    return replace(
        base,
        flavour="numpy" if route.arrays else "torch",
        packages=tuple(dict.fromkeys((*base.packages, *route.packages, *(["numpy"] if route.arrays else [])))),
        imports=(*base.imports, *route.imports, *([_LEAVES] if "tree_leaves" in expected else []), *_partial(base)),
        definitions=(*base.definitions, route.text),
        setup=(*route.setup, *base.setup),
        expected=expected,
        got=_called(base.expected, route.name, "function"),
    )


def _called(call: str, name: str, function: str) -> str:
    """`name(function, *inputs)`, or what stands for it where the inputs are put together by `call`."""
    if call.startswith("{}("):
        return call.replace("{}(", f"{name}({function}, ", 1)
    return call.replace("{}", f"partial({name}, {function})", 1)


def _partial(base: Recipe) -> tuple[str, ...]:
    return () if base.expected.startswith("{}(") else ("from functools import partial",)


def _as_module(base: Recipe) -> Recipe:
    """Exporters take modules: a plain function becomes one in two lines."""
    name = _plain_function(base)
    if not name:
        return base
    module = f"class Program(torch.nn.Module):\n    forward = staticmethod({name})\n"
    setup = tuple("function = Program().eval()" if line == f"function = {name}" else line for line in base.setup)
    return replace(base, definitions=(*base.definitions, module), setup=setup)


def _plain_function(base: Recipe) -> str:
    """The name of the function that the program is; nothing when it is a module."""
    line = next((line for line in base.setup if line.startswith("function = ")), "")
    name = line.removeprefix("function = ")
    known = any(re.search(rf"^def {re.escape(name)}\(", text, re.MULTILINE) for text in base.definitions)
    return name if name.isidentifier() and known else name if re.fullmatch(r"torch[\w.]*\.[a-z_]\w*", name) else ""


def _may_derive(base: Recipe) -> bool:
    """A plain function of plain tensors has nothing to derive by."""
    return not _plain_function(base) or bool(re.search(r"requires_grad|Parameter|nn\.[A-Z]", _text(base)))


def _text(base: Recipe) -> str:
    return "\n".join([*base.definitions, *base.setup])


def _is_module(base: Recipe) -> bool:
    return not _plain_function(base) and any(
        "Module" in text or "nn." in text for text in (*base.definitions, *base.setup)
    )
