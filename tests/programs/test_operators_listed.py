"""A bug has one name, whether its program comes as text or as a live model, which is exported."""

from __future__ import annotations

import pytest

from driftline.core.identity import spelled_alike
from driftline.programs.operators import operators_in, operators_of_archive

torch = pytest.importorskip("torch")

BODIES = ["x * 0", "torch.relu(x) + 1", "(x @ x).softmax(-1)", "torch.nn.functional.gelu(x - x.mean())", "x / 2"]


@pytest.mark.parametrize("body", BODIES)
def test_text_and_archive_name_the_same_operators(body: str) -> None:
    text = f"import torch\n\n\ndef program():\n    return (lambda x: {body}), (torch.ones(3, 3),)\n"
    space: dict[str, object] = {}
    exec(text, space)
    function, example = space["program"]()  # type: ignore[operator]

    class Module(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: object) -> object:
            return function(x)

    exported = torch.export.export(Module(), example)
    assert spelled_alike(operators_of_archive(exported)) == spelled_alike(operators_in(text, "program"))
