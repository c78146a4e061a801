"""Build the control of a script: the same script with correctly rounded results in place of the compiler's. A script is
valid only if its control exits with 0.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from driftline.core.tensors import Array, Arrays
from driftline.core.verdict import Kind
from driftline.report.export.subject import Subject
from driftline.report.scripts.elements import is_one_tensor
from driftline.report.scripts.recipe import Recipe

RIGHT = "right.npz"
_KINDS = (Kind.WRONG_VALUE, Kind.WRONG_NONFINITE, Kind.WRONG_ZERO_SIGN)


@dataclass(frozen=True)
class Control:
    """A recipe that does not use the compiler, a description of its results, and the files that its script reads."""

    recipe: Recipe
    words: str
    files: Mapping[str, bytes] = field(default_factory=dict)


def control_of(subject: Subject, recipe: Recipe) -> Control:
    """Return the recipe with correctly rounded results in place of the compiler's. If correctly rounded results are not
    known, as for a program that draws random numbers, the results of the unoptimised program are used.
    """
    if not subject.right or subject.kind not in _KINDS or recipe.samples or subject.draws:
        return Control(replace(recipe, got=recipe.expected), "the unoptimised result")
    right = {name: array for name, array in subject.right.items() if not name.startswith("mutated:")}
    torch = recipe.flavour == "torch"
    listed = ", ".join(_loaded(str(at), array, torch=torch) for at, array in enumerate(right.values()))
    returned = listed if is_one_tensor(subject.failing(), recipe) else f"[{listed}]"
    text = f'def right_results():\n    kept = np.load("{RIGHT}")\n    return {returned}\n'
    changed = replace(
        recipe,
        got="right_results()",
        imports=(*recipe.imports, "import numpy as np", "import ml_dtypes"),
        definitions=(*recipe.definitions, text),
    )
    return Control(changed, "a correctly rounded result", {RIGHT: _packed(right)})


def _packed(arrays: Arrays) -> bytes:
    written = io.BytesIO()
    raw = {str(at): np.frombuffer(array.tobytes(), np.uint8) for at, array in enumerate(arrays.values())}
    np.savez(written, **raw)  # type: ignore[arg-type]
    return written.getvalue()


def _loaded(name: str, array: Array, *, torch: bool) -> str:
    dtype, shape = array.dtype.name, tuple(map(int, array.shape))
    if torch:
        return f'torch.from_numpy(kept["{name}"]).view(torch.{dtype}).reshape({shape})'
    module = "np" if hasattr(np, dtype) else "ml_dtypes"
    return f'kept["{name}"].view({module}.{dtype}).reshape({shape})'
