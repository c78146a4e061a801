"""A file may hold many programs: titles, causes and scripts are about the one that its entry function reaches."""

from __future__ import annotations

import pytest

from driftline.programs.operators import operators_in
from driftline.programs.output_path import written_to_output
from driftline.programs.reached import reached_text

SHARED = """\
import torch
import torch.nn.functional as F

SCALE = 2.0


def halved(x):
    return x / SCALE


class Net(torch.nn.Module):
    def forward(self, x):
        return halved(x).sin()


# Shows the bug of GELU.
def gelu():
    def f(x):
        return F.gelu(x)

    x = torch.randn(16)
    x[3] = 1 + 2j
    return f, (x.cumsum(0),)


def net():
    model = Net().eval()
    return model, (torch.ones(3).exp(),)


def several():
    step = lambda x: torch.cos(x)
    return lambda x: step(x).tan(), (torch.ones(3),)


def layer():
    made = torch.nn.Softplus()
    return made, (torch.ones(3),)


def custom():
    @torch.library.custom_op("mine::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    return (lambda x: torch.ops.mine.twice(x)), (torch.ones(4),)


if __name__ == "__main__":
    print(net()[0](torch.ones(3)).floor())
"""


@pytest.mark.parametrize(
    ("factory", "operators"),
    [
        ("gelu", ("gelu",)),
        ("net", ("div", "sin")),
        ("several", ("cos", "tan")),
        ("layer", ("Softplus",)),
        ("custom", ("mul", "twice")),
    ],
)
def test_operators_are_those_that_the_entry_function_reaches(factory: str, operators: tuple[str, ...]) -> None:
    assert operators_in(SHARED, factory) == operators


def test_way_to_an_output_is_read_off_the_function_that_is_reached() -> None:
    text = (
        "import torch\ndef program():\n    def f(x):\n        a = x.sin()\n        b = x.cos()\n        return a, b\n"
        "    return f, (torch.ones(3),)\ndef other():\n    def g(x):\n        return x.tan()\n    return g, ()\n"
    )
    assert written_to_output(text, "program", "1") == ("cos",)


def test_text_keeps_what_the_entry_function_reaches() -> None:
    gelu, net = reached_text(SHARED, "gelu"), reached_text(SHARED, "net")
    assert gelu == SHARED[: SHARED.index("SCALE")] + SHARED[SHARED.index("# Shows") : SHARED.index("def net")].rstrip()
    assert "SCALE = 2.0" in net and "def halved" in net and "def gelu" not in net and "GELU" not in net
    assert "__main__" not in net


def test_text_keeps_what_may_act_by_itself() -> None:
    text = (
        "import torch\ntorch.set_default_dtype(torch.float64)\nkept = 1\n\n\n@torch.library.register_fake('a::b')\n"
        "def b(x):\n    return x\n\n\ndef unused():\n    return 1\n\n\ndef program():\n    return torch.relu, (kept,)\n"
    )
    kept = reached_text(text, "program")
    assert kept == text.replace("def unused():\n    return 1\n\n\n", "").rstrip("\n")
    assert reached_text(text.replace("(kept,)", "(globals()['unused'](),)"), "program").count("def unused") == 1
    assert reached_text(text, "missing") == text
