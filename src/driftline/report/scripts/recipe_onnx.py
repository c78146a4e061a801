"""Write recipes for ONNX models: the model as text or packed bytes, with the reference evaluator for the expected
results.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from driftline.core.program import Program, SourceBundle
from driftline.core.quoting import comment, string
from driftline.core.script_call import ScriptCall
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.programs.factory_text import used_imports
from driftline.programs.literals import UNPACK, Literals
from driftline.programs.onnx.text import TextDetail, model_text
from driftline.programs.reached import reached_text
from driftline.report.scripts.calls import first_call
from driftline.report.scripts.recipe import ROOM, Recipe

_REFERENCE = "reference.ReferenceEvaluator(model).run(None, inputs)"


def onnx_recipe(
    program: Program,
    arrays: Arrays,
    target: Target,
    *,
    room: int = ROOM,
    call: ScriptCall | None = None,
    detail: TextDetail = TextDetail.MEANING,
) -> Recipe:
    """Return the recipe of a model file, or of a Python file whose factory returns a model. `call`: how the compiler is
    called; the target's first call by default.
    """
    literals = Literals("numpy", room, brief=True)
    if program.form == "source":
        bundle = SourceBundle.load(program.path.read_bytes())
        imports: list[str] = []
        definitions = [reached_text(bundle.text.strip(), bundle.entry_name)]
        setup = [f"model = {bundle.entry_name}()[0]"]
        files: tuple[str, ...] = ()
    else:
        imports, definitions, setup, files = _model(program.path, literals, detail)
    # Some compilers take them by position.
    arrays = {spec.name: arrays[spec.name] for spec in program.inputs if spec.name in arrays} | dict(arrays)
    given = _inputs(arrays, literals)
    if literals.packed:
        definitions.append(UNPACK)
        imports += ["import base64", "import zlib"]
    imports.append("import ml_dtypes")  # for dtypes that numpy lacks; removed below if unused
    made = Recipe(
        flavour="numpy",
        packages=("numpy", "onnx"),
        imports=(*imports, "import numpy as np", "from onnx import reference"),
        definitions=tuple(definitions),
        setup=(*setup, given),
        expected=_REFERENCE,
        got="",
        left_out=tuple(literals.left_out),
        files=files,
    )
    run = call or first_call(target, "onnx")
    made = _with_call(made, run) if run else made
    text = "\n".join([*made.definitions, *made.setup, made.expected, made.got])
    own = set(text.splitlines())
    return replace(made, imports=tuple(line for line in used_imports(made.imports, text) if line not in own))


def _inputs(arrays: Arrays, literals: Literals) -> str:
    """Write the statement that makes the inputs, on one line if it is short."""
    entries = [f"    {string(name)}: {literals.expression(name, array)}," for name, array in arrays.items()]
    line = f"inputs = {{{' '.join(entry.strip() for entry in entries)[:-1]}}}"
    return line if len(line) <= 110 and "\n" not in line else "\n".join(["inputs = {", *entries, "}"])


def _with_call(recipe: Recipe, call: ScriptCall) -> Recipe:
    """Add a compiler's call, with the text that suits the dtypes of the model."""
    whole = "".join(recipe.definitions)
    text = next((text for dtype, text in call.text_for.items() if dtype in whole), call.text)
    return replace(
        recipe,
        packages=tuple(dict.fromkeys((*recipe.packages, *call.packages))),
        imports=(*recipe.imports, *call.imports),
        definitions=(*recipe.definitions, *([text] if text else [])),
        setup=(*call.setup, *recipe.setup),
        got=call.call,
        own_process=bool(call.own_process),
    )


def with_literal_expectation(recipe: Recipe, expected: Arrays, room: int = ROOM) -> Recipe:
    """Return the recipe with the expected results written out, for models that the reference evaluator cannot run. The
    recipe is unchanged if the results are too large.
    """
    literals = Literals("numpy", room, brief=True)
    values = ", ".join(literals.expression(name, array, "    ") for name, array in expected.items())
    if literals.packed or literals.left_out:
        return recipe
    return replace(recipe, expected=f"[{values}]")


def _model(
    path: Path, literals: Literals, detail: TextDetail
) -> tuple[list[str], list[str], list[str], tuple[str, ...]]:
    """Return imports, definitions and statements that create `model`, and the files that they read."""
    import onnx

    model = onnx.load(str(path))
    text, apart = model_text(model, detail)
    if not text:
        return _packed(path, model)
    setup = []
    for tensor in apart:
        made = literals.expression(tensor.name, onnx.numpy_helper.to_array(tensor), "")
        setup.append(f"model.graph.initializer.append(numpy_helper.from_array({made}, {string(tensor.name)}))")
    made = f'model = parser.parse_model("""\n{text}""")'
    return ["from onnx import numpy_helper", "from onnx import parser"], [made], setup, ()


def _packed(path: Path, model: Any) -> tuple[list[str], list[str], list[str], tuple[str, ...]]:
    """Write a model that has no text which parses back to the same model: its bytes, or the path of its file if it is
    large.
    """
    text = base64.b64encode(zlib.compress(model.SerializeToString(), 9)).decode()
    if len(text) > ROOM:
        return ["import onnx"], [], [f"model = onnx.load({string(str(path))})  # too large to print"], (str(path),)
    rows = "\n".join(f'    "{text[i : i + 100]}"' for i in range(0, len(text), 100))
    listing = ", ".join(node.op_type for node in model.graph.node[:40])
    setup = ["model = onnx.load_model_from_string(zlib.decompress(base64.b64decode(MODEL)))"]
    imports = ["import base64", "import zlib", "import onnx"]
    return imports, [f"# {comment(listing)}\nMODEL = (\n{rows}\n)"], setup, ()
