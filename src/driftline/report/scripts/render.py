"""Write a program and its inputs as a Python script that runs by itself, for reports and bug trackers.

The script needs the framework and the compiler, not Driftline. It prints the results of the unoptimised program and of
the compiler, and with a check it exits with 1 if the bug shows. Models are read with `onnx`, which is a file format and
may be imported here; no compiler is.
"""

from __future__ import annotations

import base64
import re
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Unpack, cast

from driftline.core.program import Program, SourceBundle
from driftline.core.quoting import comment, string
from driftline.core.script_call import ScriptCall
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.programs.factory_text import used_imports
from driftline.programs.literals import UNPACK, Literals
from driftline.programs.onnx.text import TextDetail
from driftline.report.scripts.calls import first_call
from driftline.report.scripts.parts import SHOW
from driftline.report.scripts.recipe import ROOM, Check, ModelSettings, Recipe, RecipeSettings, import_block
from driftline.report.scripts.recipe_onnx import onnx_recipe
from driftline.report.scripts.recipe_source import source_recipe
from driftline.report.scripts.recipe_torch import torch_results, with_gradients

LINE = 110  # characters, in a script that is to be short


def render_script(
    program: Program, arrays: Arrays, target: str | Target, *, grad: bool = False, seed: int = 0, room: int = ROOM
) -> str:
    """Return a runnable script that prints both results. Tensors of more than `room` characters are replaced by
    stand-ins, with a comment.
    """
    goal = target if isinstance(target, Target) else Target.parse(target)
    return show_script(make_recipe(program, arrays, goal, grad=grad, seed=seed, room=room), goal)


def make_recipe(program: Program, arrays: Arrays, target: Target, **settings: Unpack[ModelSettings]) -> Recipe:
    """Return the parts of a script for a program."""
    room, call = settings.get("room", ROOM), settings.get("call")
    if program.form == "onnx" or (program.form == "source" and program.framework == "onnx"):
        detail = settings.get("detail", TextDetail.MEANING)
        return onnx_recipe(program, arrays, target, room=room, call=call, detail=detail)
    if program.form == "source":
        bundle = SourceBundle.load(program.path.read_bytes())
        return source_recipe(bundle, program.framework, arrays, target, **_of_source(settings))
    return _file_recipe(program, arrays, target, room, settings.get("grad", False), settings.get("seed", 0), call)


def show_script(recipe: Recipe, target: Target) -> str:
    """Return the script that prints both results, also if one of the runs raises."""
    lines = [f'show("expected:", lambda: {recipe.expected})']
    if recipe.got:
        lines.append(f'show("got:     ", lambda: {recipe.got})')
    else:
        lines.append(f"# {comment(str(target))} has no short call: driftline check FILE --targets TARGET runs it")
    title = [f"# A program and inputs that fail on {comment(str(target))}.", *_stand_ins(recipe)]
    return _assemble(title, recipe.imports, (*recipe.definitions, SHOW), (*recipe.setup, *lines))


def check_script(recipe: Recipe, check: Check, title: Iterable[str] = (), pins: Iterable[str] = ()) -> str:
    """Return the script that decides whether the bug shows. `pins`: requirements with exact versions."""
    lines = _filled(check.lines, recipe)
    remarks = [*(f"# {comment(line)}" for line in title), *_stand_ins(recipe)]
    definitions, body = (*recipe.definitions, *check.definitions), _shorter(recipe.setup, lines)
    imports = used_imports((*recipe.imports, *check.imports), "\n".join([*definitions, *body]))
    return _assemble([*remarks, *_metadata(pins)], imports, definitions, body)


def regression_test(
    recipe: Recipe, check: Check, name: str, title: Iterable[str] = (), pins: Iterable[str] = ()
) -> str:
    """Return a pytest file with one test, which fails while the bug exists."""
    body = [line for text in _shorter(recipe.setup, _filled(check.test, recipe)) for line in text.splitlines()]
    test = "\n".join([f"def test_{name}():", *(f"    {line}" if line else "" for line in body)])
    definitions = (*recipe.definitions, *check.definitions, test)
    imports = used_imports((*recipe.imports, *check.imports), "\n".join(definitions))
    remarks = [*(f"# {comment(line)}" for line in title), *_stand_ins(recipe)]
    return _assemble([*remarks, *_metadata(pins)], imports, definitions, ())


def short_script(text: str, target: Target, *, training: bool = False) -> str:
    """Return a script that prints both results of a torch program, given the text of a file with a factory `program`.
    The target must be called by `torch.compile`. `training`: with gradients.
    """
    bundle = SourceBundle("program.py", "program", {"program.py": text})
    called = first_call(target, "torch")
    assert called and not called.gives_results, f"{target} is not called by torch.compile"
    recipe = source_recipe(bundle, "torch", {}, target, own_inputs=True, call=called)
    compiled = called.call
    if training:
        setup = [line for line in recipe.setup if "set_grad_enabled" not in line]
        lines = [
            f"for f in (function, {compiled}):",
            "    given = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]",
            "    out = f(*given)",
            "    sum(x.sum() for x in (out if isinstance(out, tuple) else (out,))).backward()",
            "    print(out, [x.grad for x in given])",
        ]
    else:
        setup = list(recipe.setup)
        call = recipe.expected.replace("function", compiled, 1)
        lines = [f'print("expected", {recipe.expected})', f'print("got", {call})']
    if "function = model" in setup:
        setup.remove("function = model")
        lines = [re.sub(r"\bfunction\b", "model", line) for line in lines]
    return _assemble([], recipe.imports, recipe.definitions, (*_on_one_line(setup), *lines))


def _shorter(setup: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Return the body of a script, with the function's own name in place of `function`."""
    setup = _on_one_line(setup)
    own = next(
        (line.removeprefix("function = ") for line in setup if re.fullmatch(r"function = [A-Za-z_]\w*", line)), ""
    )
    if not own:
        return [*setup, *lines]
    kept = [line for line in setup if line != f"function = {own}"]
    return [_outside_strings(r"(?<![.\w])function\b(?! *=)", {"function": own}, line) for line in (*kept, *lines)]


def _on_one_line(setup: Sequence[str]) -> list[str]:
    """Write the inputs inside the list `inputs`, instead of one line for each, if that fits on one line."""
    made = dict(line.split(" = ", 1) for line in setup if re.fullmatch(r"\w+ = torch\.\S.*", line))
    listed = next((line for line in setup if line.startswith("inputs = [")), "")
    names = [name for name in listed.removeprefix("inputs = [").rstrip("]").split(", ") if name]
    together = f"inputs = [{', '.join(made.get(name, '') for name in names)}]"
    others = [line for line in setup if line != listed and line.split(" = ")[0] not in made]
    # The same order, or a generator would draw other numbers; and no tensor that is changed or used to make another.
    used = any(re.search(rf"\b{name}\b", text) for name in made for text in (together, *others))
    if names != list(made) or len(together) > LINE or used:
        return list(setup)
    return [together if line == listed else line for line in setup if line.split(" = ")[0] not in names]


def _of_source(settings: ModelSettings) -> RecipeSettings:
    return cast(RecipeSettings, {name: value for name, value in settings.items() if name != "detail"})


# -- parts -------------------------------------------------------------------------------------------------------------


def _file_recipe(
    program: Program, arrays: Arrays, target: Target, room: int, grad: bool, seed: int, call: ScriptCall | None
) -> Recipe:
    """Write a recipe for a torch.export archive or a TFLite file: packed in the script, or read from its path if it is
    large.
    """
    torch = program.form == "torch"
    literals = Literals("torch" if torch else "numpy", room, brief=True)
    given = [literals.expression(name, array) for name, array in arrays.items()]
    packed = base64.b64encode(zlib.compress(program.path.read_bytes(), 9)).decode()
    setup, definitions = [], [UNPACK] if literals.packed else []
    inside = len(packed) <= room
    if inside:
        rows = "\n".join(f'    "{packed[at : at + 100]}"' for at in range(0, len(packed), 100))
        definitions.append(f"PROGRAM = io.BytesIO(zlib.decompress(base64.b64decode(\n{rows}\n)))")
    else:
        setup.append(f"PROGRAM = {string(str(program.path))}  # too large to print")
    setup.append("\n".join(["inputs = [", *(f"    {text}," for text in given), "]"]))
    base = Recipe(
        flavour="torch" if torch else "numpy",
        packages=("torch",) if torch else ("numpy",),
        imports=("import base64", "import io", "import zlib", "import numpy as np", "import torch"),
        definitions=tuple(definitions),
        setup=(*setup, "function = torch.export.load(PROGRAM).module()") if torch else tuple(setup),
        expected="{}(*inputs)" if torch else "(PROGRAM, inputs)",
        got="",
        left_out=tuple(literals.left_out),
        files=() if inside else (str(program.path),),
    )
    made = torch_results(base, target, call or first_call(target, "torch")) if torch else base
    made = with_gradients(made, base, seed) if torch and grad else made
    text = "\n".join([*made.definitions, *made.setup, made.expected, made.got])
    return replace(made, imports=tuple(used_imports(made.imports, text)))


def _filled(lines: Iterable[str], recipe: Recipe) -> list[str]:
    return [
        _outside_strings(r"\b(?:EXPECTED|GOT)\b", {"EXPECTED": recipe.expected, "GOT": recipe.got}, line)
        for line in lines
    ]


def _outside_strings(names: str, values: Mapping[str, str], line: str) -> str:
    """Replace names in a line of a script, except inside string literals."""

    def replaced(found: re.Match[str]) -> str:
        return values.get(found[0], found[0])

    return re.sub(rf'"(?:[^"\\]|\\.)*"|{names}', replaced, line)


def _metadata(pins: Iterable[str]) -> list[str]:
    """Return inline metadata (PEP 723), from which `uv run` makes the environment of the script."""
    listed = ", ".join(string(pin) for pin in pins)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"  # releases have wheels for some Pythons only
    lines = ["# /// script", f'# requires-python = "=={python}.*"', f"# dependencies = [{listed}]", "# ///"]
    return lines if listed else []


def _stand_ins(recipe: Recipe) -> list[str]:
    """Return comments on tensors that are stand-ins for the true values, or packed."""
    if not recipe.left_out:
        packed = UNPACK in recipe.definitions
        return ["# The packed numbers are the ones that fail; no plainer numbers were seen to."] if packed else []
    return [
        f"# STAND-INS, not the true values, for {comment(', '.join(recipe.left_out))}: too many to print here.",
        "# The true ones are in the store; driftline replay uses them.",
    ]


def _assemble(title: Iterable[str], imports: Iterable[str], definitions: Iterable[str], body: Iterable[str]) -> str:
    """Join all parts to one text with the usual blank lines. A `from __future__` import stays first."""
    blocks = [text.strip("\n") for text in definitions if text.strip()]
    future = [text for text in blocks[:1] if "from __future__ import" in text]
    parts = [*future, "\n".join(title), import_block(list(imports)), *blocks[len(future) :], "\n".join(body)]
    text = ""
    for part in (part for part in parts if part.strip()):
        wide = part.startswith(("def ", "class ", "@")) or _ends_block(text)
        after_title = text and all(line.startswith("#") for line in text.splitlines())
        gap = "\n" if after_title else "\n\n\n" if wide else "\n\n"
        text = f"{text}{gap}{part}" if text else part
    return text + "\n"


def _ends_block(text: str) -> bool:
    return text.rstrip("\n").rpartition("\n")[2].startswith((" ", "\t"))
