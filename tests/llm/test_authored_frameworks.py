"""Programs of a model in JAX and TensorFlow: made, given other sizes, or named after what is wrong with them."""

from __future__ import annotations

import pytest

from driftline.generate.authored import bounds, names
from driftline.generate.authored.program import make_program
from driftline.generate.authored.sketch import make_sketch
from driftline.generate.base import GeneratorRequest

JAX = """\
import jax
import jax.numpy as jnp

def model(x, y):
    return jax.nn.relu(x @ y) + 1

def program():
    return model, (jnp.ones((3, 4)), jnp.ones((4, 5)))
"""
TENSORFLOW = """\
import tensorflow as tf

def model(x, y):
    return tf.nn.relu(tf.matmul(x, y)) + 1

def program():
    return model, (tf.ones([3, 4]), tf.ones([4, 5]))
"""
TEXTS = {"jax": JAX, "tensorflow": TENSORFLOW}
RESULT = {"jax": "jax.nn.relu(x @ y) + 1", "tensorflow": "tf.nn.relu(tf.matmul(x, y)) + 1"}
SHORT = {"jax": "jnp.ones((3, 4))", "tensorflow": "tf.ones([3, 4])"}


@pytest.fixture(params=["jax", "tensorflow"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip(request.param)
    monkeypatch.setattr(bounds, "SECONDS", 2.0)
    return str(request.param)


def test_a_program_stays_as_it_is_and_other_sizes_are_tried(form: str) -> None:
    made = make_program(TEXTS[form], form)
    assert made.content == TEXTS[form] and made.form == form
    assert [(plan.spec.name, plan.spec.dtype, plan.spec.shape) for plan in made.inputs] == [
        ("x", "float32", (3, 4)), ("y", "float32", (4, 5)),
    ]  # fmt: skip
    assert "relu" in made.operators
    resized = make_program(TEXTS[form].replace(SHORT[form], SHORT[form].replace("4", "7")), form)
    x, y = (plan.spec.shape for plan in resized.inputs)
    assert "given_program" in str(resized.content) and x[-1] == y[-2]


def test_what_is_wrong_has_a_name(form: str) -> None:
    text, result = TEXTS[form], RESULT[form]
    module = {"jax": "jax", "tensorflow": "tf"}[form]
    wrong = {
        "import torch\n" + text: names.FORBIDDEN_IMPORT,
        text.replace(result, f"{module}.experimental.x(x)"): names.FORBIDDEN_CALL,
        text.replace(result, f"{module}.nope(x)"): names.DOES_NOT_RUN,
        text.replace(result, "3"): names.NO_TENSOR,
        text.replace(result, "None"): names.NO_TENSOR,
        "import numpy\n" + text.replace(result, "x + numpy.random.rand()"): names.RANDOM,
        text.replace("    return " + result, "    while True: x = x"): names.ENDLESS,
    }
    if form == "jax":
        wrong[text.replace("def model", "jax.config.update('jax_disable_jit', True)\ndef model")] = names.FORBIDDEN_CALL
        assert make_program(text.replace("def model", "jax.config.update('jax_enable_x64', True)\ndef model"), form)
    else:
        wrong[text.replace("+ 1", "+ tf.random.uniform([3, 5])")] = names.RANDOM
    for program, name in wrong.items():
        with pytest.raises(names.Unusable) as error:
            make_program(program, form)
        assert error.value.name == name, (program, error.value)


def test_a_sketch_is_a_valid_program(form: str) -> None:
    made = make_sketch(GeneratorRequest(form, "rule", 0, text="matmul\nrelu\nsum", mode="sketch"))
    assert made.form == form and made.graph and len(made.graph.nodes) >= 2
