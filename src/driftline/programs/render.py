"""A program and its inputs as a Python script that runs by itself: what goes into a report or a bug tracker.

The script needs the framework and the compiler, not Driftline. It prints what the unoptimised program gives and what
the compiler gives. Models are read with `onnx`, which is a file format and may be imported here; no compiler is.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

from driftline.core.program import Program, SourceBundle
from driftline.core.target import Target
from driftline.core.tensors import Array, Arrays
from driftline.programs.inductor_options import BOOLEAN, inductor_config
from driftline.programs.literals import UNPACK, Literals
from driftline.programs.onnx_text import constants, model_text
from driftline.programs.script_parts import EXPORT, FILL, LAYOUT, REFERENCE, RUNNERS, SHOW

ROOM = 200_000  # characters that tensors may take in one script


def render_script(program: Program, arrays: Arrays, target: str | Target, *, room: int = ROOM) -> str:
    """A runnable script. Tensors that take more than `room` characters get a stand-in, and a comment says so."""
    goal = target if isinstance(target, Target) else Target.parse(target)
    if program.form == "source":
        bundle = SourceBundle.load(program.path.read_bytes())
        if program.framework != "onnx":
            return _source_script(bundle, program.framework, arrays, goal, room)
        return _onnx_source_script(bundle, arrays, goal, room)
    if program.form == "onnx":
        return _onnx_script(program, arrays, goal, room)
    return _file_script(program, arrays, goal, room)


# -- Python sources ----------------------------------------------------------------------------------------------------

_STRANGE_LAYOUT = re.compile(r"permute|expand|unfold|as_strided|transpose|::|\.t\(|\.[Tm][TH]?\b")


def _source_script(bundle: SourceBundle, framework: str, arrays: Arrays, target: Target, room: int) -> str:
    torch = framework == "torch"
    literals = Literals("torch" if torch else "numpy", room)
    made = _inputs_function(arrays, literals)
    factory = bundle.text[bundle.text.find(f"def {bundle.entry_name}") :]
    laid_out = torch and bool(_STRANGE_LAYOUT.search(factory))
    plain = "" if laid_out else _plain_call(bundle, arrays)
    filling = "" if plain else FILL % ("laid_out(example, next(values))" if laid_out else "next(values)")
    run = plain or "call({}, example)"
    compiled = _compiled(framework, target)
    runner = _runner(target) if torch and plain else ""
    main = [f"function, {'_' if plain else 'example'} = {bundle.entry_name}()"]
    main.append(f'show("expected:", lambda: {run.format("function")})')
    if compiled:
        main.append(f'show("got:     ", lambda: {run.format(compiled)})')
    elif runner:
        main.append('show("got:     ", lambda: compiled(*exported(function)))')
    else:
        main.append(f"# {target} has no one-line call:")
        main.append(f"# driftline check THIS_FILE.py:{bundle.entry_name} --targets {target}")
    if torch:
        main = ["torch.manual_seed(0)", "with torch.no_grad():", *(f"    {line}" for line in main)]
    imports = _imports("torch" if torch else "numpy", arrays, literals)
    if framework == "tensorflow":
        imports.append("import tensorflow as tf")
    if framework == "jax":
        imports.append("import jax")
    return _join(
        *_program_text(bundle),
        _title(f"The inputs that fail on {target}, and both runs.", literals),
        _missing(imports, bundle),
        UNPACK if literals.packed else "",
        made,
        LAYOUT if laid_out else "",
        filling,
        EXPORT if runner else "",
        runner,
        SHOW,
        _main(main),
    )


def _missing(imports: list[str], bundle: SourceBundle) -> str:
    """The imports that the program's own text does not have already."""
    own = set(bundle.text.splitlines())
    return "\n".join(line for line in imports if line not in own).strip("\n") + "\n"


def _plain_call(bundle: SourceBundle, arrays: Arrays) -> str:
    """The call, when the factory returns a plain tuple with one tensor per argument; else nothing."""
    if any("." in name for name in arrays):
        return ""
    try:
        tree = ast.parse(bundle.text)
    except SyntaxError:
        return ""
    factory = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == bundle.entry_name), None)
    made = [node.value for node in ast.walk(factory) if isinstance(node, ast.Return)] if factory else []
    if len(made) != 1 or not isinstance(made[0], ast.Tuple) or len(made[0].elts) != 2:
        return ""
    given = made[0].elts[1]
    if isinstance(given, ast.Tuple) and len(given.elts) == len(arrays):
        return "{}(*inputs().values())" if not any(isinstance(e, ast.Starred) for e in given.elts) else ""
    return ""


def _compiled(framework: str, target: Target) -> str:
    """The expression of the compiled function; nothing when it takes more than a line."""
    options = dict(target.options)
    if framework == "torch":
        if target.backend == "inductor":
            return f"torch.compile(function{_inductor_options(options)})"
        if target.backend in ("aot_eager", "eager") or target.backend.startswith("dynamo:"):
            return f'torch.compile(function, backend="{target.backend.removeprefix("dynamo:")}")'
    if framework == "tensorflow" and target.backend == "xla":
        return "tf.function(function, jit_compile=True)"
    if framework == "jax" and target.backend in ("xla", "jax"):
        return "jax.jit(function)"
    return ""


def _inductor_options(options: dict[str, str]) -> str:
    dynamic = f", dynamic={BOOLEAN[options['dynamic']]}" if options.get("dynamic") in BOOLEAN else ""
    config = inductor_config(options)
    return dynamic + (f", options={config!r}" if config else "")


def _program_text(bundle: SourceBundle) -> list[str]:
    """The entry file, with the files that it imports made before its first import but the one of `__future__`."""
    text, others = bundle.text.strip(), _siblings(bundle)
    if not others:
        return [text]
    start = 0
    for node in ast.parse(text).body:
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        remark = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not future and not remark:
            break
        start = node.end_lineno or 0
    lines = text.splitlines()
    return ["\n".join(lines[:start]), others, "\n".join(lines[start:])]


def _siblings(bundle: SourceBundle) -> str:
    """Other files of the program, written to a temporary folder before they are imported."""
    others = {name: text for name, text in bundle.files.items() if name != bundle.entry_file}
    if not others:
        return ""
    lines = ["# Files that the program imports.", "import pathlib", "import sys", "import tempfile", ""]
    lines += ["HOME = pathlib.Path(tempfile.mkdtemp())"]
    for name, text in sorted(others.items()):
        lines += [f"(HOME / {name!r}).parent.mkdir(parents=True, exist_ok=True)"]
        lines += [f"(HOME / {name!r}).write_text({text!r})"]
    return "\n".join([*lines, "sys.path.insert(0, str(HOME))", ""])


# -- ONNX models -------------------------------------------------------------------------------------------------------

_LEVELS = {"off": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED"}


def _onnx_script(program: Program, arrays: Arrays, target: Target, room: int) -> str:
    import onnx

    literals = Literals("numpy", room)
    model = onnx.load(str(program.path))
    text, apart = model_text(model)
    if text:
        lines = ["def make_model():", "    model = parser.parse_model(MODEL)"]
        for tensor in apart:
            values = onnx.numpy_helper.to_array(tensor)
            made = literals.expression(tensor.name, values)
            lines.append(
                f"    model.graph.initializer.append(numpy_helper.from_array({made}, {json.dumps(tensor.name)}))"
            )
        making = "\n".join([*(['    nan, inf = float("nan"), float("inf")'] if _odd(lines) else []), ""])
        body = "\n".join([lines[0], *([making.rstrip()] if making.strip() else []), *lines[1:], "    return model", ""])
        source = f'MODEL = """\n{text}\n"""\n'
    else:
        source, body = _packed_model(program.path, model)
    names = ["numpy_helper"] if apart and text else []
    imports = [f"from onnx import {', '.join([*names, 'parser'])}" if text else "import onnx"]
    return _onnx_join(source, body, arrays, target, literals, imports, apart=apart if text else [])


def _runner(target: Target) -> str:
    """The function that compiles and runs a model on the target; nothing when that is not short."""
    options = dict(target.options)
    disabled = ", ".join(f'"{name}"' for name in options.get("disable", "").split("+") if name)
    return RUNNERS.get(target.backend, "").format(
        level=_LEVELS.get(options.get("opt", ""), "ORT_ENABLE_ALL"),
        disabled=f", disabled_optimizers=[{disabled}]" if disabled else "",
        opt=options["opt"] if options.get("opt", "").isdigit() else "3",
    )


def _odd(lines: list[str]) -> bool:
    return any(re.search(r"\b(nan|inf)\b", line) for line in lines)


def _packed_model(path: Path, model: Any) -> tuple[str, str]:
    """A model that has no text which reads back to it: its bytes, or its file when they are many."""
    data = zlib.compress(model.SerializeToString(), 9)
    text = base64.b64encode(data).decode()
    if len(text) > ROOM:
        return "", f'def make_model():\n    return onnx.load("{path}")  # too large to print\n'
    rows = "\n".join(f'    "{text[i : i + 100]}"' for i in range(0, len(text), 100))
    unpacked = "zlib.decompress(base64.b64decode(MODEL))"
    return (
        f"# {', '.join(node.op_type for node in model.graph.node[:40])}\nMODEL = (\n{rows}\n)\n",
        f"def make_model():\n    return onnx.load_model_from_string({unpacked})\n",
    )


def _onnx_source_script(bundle: SourceBundle, arrays: Arrays, target: Target, room: int) -> str:
    """A Python file whose factory returns a model."""
    literals = Literals("numpy", room)
    body = f"def make_model():\n    return {bundle.entry_name}()[0]\n"
    return _onnx_join("\n\n".join(_program_text(bundle)), body, arrays, target, literals, [], source_first=True)


def _onnx_join(
    source: str, body: str, arrays: Arrays, target: Target, literals: Literals, imports: list[str],
    *, apart: list[Any] | None = None, source_first: bool = False,
) -> str:  # fmt: skip
    made = _inputs_function(arrays, literals)
    runner = _runner(target)
    lines = ["model = make_model()", 'show("expected:", lambda: reference(model, inputs()))']
    if runner:
        lines.append('show("got:     ", lambda: compiled(model, inputs()))')
    else:
        lines.append(
            f"# {target} has no short call: save the model and run driftline check FILE.onnx --targets {target}"
        )
    every = {**arrays, **constants(apart or [])}
    needed = [*_imports("numpy", every, literals, packed_model="base64.b64decode" in body), *imports]
    own = set(source.splitlines()) if source_first else set()
    head = "\n".join(line for line in needed if line not in own).strip("\n") + "\n"
    first = [source, _title(f"The inputs that fail on {target}, and both runs.", literals), head]
    if not source_first:
        first = [_title(f"A model and inputs that fail on {target}.", literals), head, source]
    unpack = UNPACK if literals.packed else ""
    return _join(*first, unpack, body, made, REFERENCE, runner, SHOW, _main(lines))


# -- other files -------------------------------------------------------------------------------------------------------


def _file_script(program: Program, arrays: Arrays, target: Target, room: int) -> str:
    """A torch.export archive or a TFLite file: too large and too binary to print; the script reads it."""
    torch = program.form == "torch"
    literals = Literals("torch" if torch else "numpy", room)
    made = _inputs_function(arrays, literals)
    if torch:
        main = [
            "with torch.no_grad():",
            "    function = torch.export.load(FILE).module()",
            '    show("expected:", lambda: function(*inputs().values()))',
        ]
        compiled = _compiled("torch", target)
        if compiled:
            main.append(f'    show("got:     ", lambda: {compiled}(*inputs().values()))')
    else:
        main = [f"# driftline check {program.name} --targets {target} runs it", "print(FILE, inputs())"]
    imports = "\n".join(_imports("torch" if torch else "numpy", arrays, literals)) + "\n"
    head = _title(f"A program and inputs that fail on {target}.", literals)
    unpack = UNPACK if literals.packed else ""
    return _join(head, imports, f'FILE = "{program.path}"\n', unpack, made, SHOW if torch else "", _main(main))


# -- parts -------------------------------------------------------------------------------------------------------------


def _inputs_function(arrays: Arrays, literals: Literals) -> str:
    entries = [
        f"        {json.dumps(name)}: {literals.expression(name, array, '        ')}," for name, array in arrays.items()
    ]
    lines = ["def inputs():"]
    if _odd(entries):
        lines.append('    nan, inf = float("nan"), float("inf")')
    lines += ["    return {", *entries, "    }"] if entries else ["    return {}"]
    return "\n".join(lines) + "\n"


def _imports(flavour: str, arrays: Arrays, literals: Literals, packed_model: bool = False) -> list[str]:
    lines = ["import base64", "import zlib"] if literals.packed or packed_model else []
    lines = [*lines, ""] if lines else lines
    if flavour == "numpy" and any(_small_float(array) for array in arrays.values()):
        lines.append("import ml_dtypes")
    if flavour == "numpy" or literals.packed or literals.left_out:
        lines.append("import numpy as np")
    return [*lines, "import torch"] if flavour == "torch" else lines


def _small_float(array: Array) -> bool:
    return array.dtype.name.startswith(("bfloat16", "float8"))


def _title(text: str, literals: Literals) -> str:
    lines = [f"# {text}"]
    if literals.left_out:
        lines.append(f"# STAND-INS, not the true values, for {', '.join(literals.left_out)}: too many to print here.")
        lines.append("# The true ones are in the store; driftline replay uses them.")
    return "\n".join(lines) + "\n"


def _main(lines: list[str]) -> str:
    return "\n".join(['if __name__ == "__main__":', *(f"    {line}" for line in lines), ""])


def _join(*parts: str) -> str:
    kept = [part.strip("\n") for part in parts if part.strip()]
    text = ""
    for part in kept:
        gap = "\n\n\n" if part.startswith(("def ", "if __name__", "# The inputs")) or _ends_block(text) else "\n\n"
        text = f"{text}{gap}{part}" if text else part
    return text + "\n"


def _ends_block(text: str) -> bool:
    last = text.rstrip("\n").rpartition("\n")[2]
    return last.startswith((" ", "\t"))
