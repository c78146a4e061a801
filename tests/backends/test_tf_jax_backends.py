"""TensorFlow, TensorFlow Lite and XLA on their own programs, and the float64 runs their verdicts rest on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from driftline.backends import BACKENDS
from driftline.checking.checker import Checker
from driftline.checking.open import LoadedProgram, open_program
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.target import parse_targets
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement

TENSORFLOW = """
import tensorflow as tf

A, B = tf.constant([1.0, 2.0, 3.0]), tf.constant([0.5, 0.25, 0.125])
W = tf.constant([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])

def structures():
    return (lambda d, *, y: {"z": d["a"] - y, "pair": (d["a"] + y, [y, 3])}), {"y": B, "d": {"a": A}}

def same_shapes():
    return (lambda c, b, a: a - 2 * b + 4 * c), (A * B, B, A)

def no_inputs():
    return (lambda: tf.range(4.0) + 1), ()

def zero_dimensional():
    return (lambda x: x * 2 + 1), (tf.constant(1.5),)

def empty():
    return (lambda x: x * 2), (tf.zeros((0, 3)),)

def input_returned():
    return (lambda x, y: (x, x + y)), (A, B)

def loops():
    @tf.function
    def f(x):
        for i in tf.range(3):
            x = x * 2.0 + tf.cast(i, tf.float32)
        return x
    return f, (A,)

def integers():
    return (lambda a, b: (a * b + 3, a > b)), (tf.constant([0, 1, 2]), tf.constant([2, 0, 1]))

def strings():
    return (lambda x: tf.strings.length(tf.strings.as_string(x))), (tf.constant([1, 22]),)

def bfloat():
    return (lambda x: x * 2), (tf.cast(A, tf.bfloat16),)

def keeps_state():
    class Counter(tf.Module):
        def __init__(self):
            self.count = tf.Variable(tf.ones(3))
        def __call__(self, x):
            self.count.assign_add(x)
            return self.count * 2
    return Counter(), (A,)

def looks_up():
    class Table(tf.Module):
        def __init__(self):
            self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1, 2], [0.5, 2.5]), 0.0)
        def __call__(self, x):
            return self.table.lookup(x) * A
    return Table(), (tf.constant([1, 2, 3]),)

def draws():
    return (lambda x: x + tf.random.stateless_uniform([3], [1, 2])), (A,)

def network():
    return (lambda x: tf.nn.softmax(tf.nn.relu(tf.cast(x, tf.float16) @ tf.cast(W, tf.float16)))), (A[None, :],)

def keras_network():
    import keras
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Input((4, 4, 2)), keras.layers.Conv2D(3, 3), keras.layers.BatchNormalization(),
              keras.layers.Flatten(), keras.layers.Dense(2)]
    return keras.Sequential(layers), (tf.random.stateless_normal([2, 4, 4, 2], [1, 2]),)

def fixed_to_float():
    return (lambda x: tf.image.resize(x, [3, 3])), (tf.ones([1, 2, 2, 1]),)
"""
JAX = """
import jax
import jax.numpy as jnp
import numpy as np

A, B = jnp.array([1.0, 2.0, 3.0]), jnp.array([0.5, 0.25, 0.125])

def structures():
    return (lambda d, *, y: {"z": d["a"] - y, "pair": (d["a"] + y, [y, 3])}), {"y": B, "d": {"a": A}}

def same_shapes():
    return (lambda c, b, a: a - 2 * b + 4 * c), (A * B, B, A)

def no_inputs():
    return (lambda: jnp.arange(4.0) + 1), ()

def zero_dimensional():
    return (lambda x: x * 2 + 1), (jnp.array(1.5),)

def empty():
    return (lambda x: x * 2), (jnp.zeros((0, 3)),)

def input_returned():
    return (lambda x, y: (x, x + y)), (A, B)

def loops():
    return (lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x)), (A,)

def integers():
    return (lambda a, b: (a * b + 3, a > b)), (jnp.array([0, 1, 2]), jnp.array([2, 0, 1]))

def wide():
    return (lambda a, b: (a + 1, b / 3)), (np.array([2**40]), np.array([1.0]))

def branches():
    return (lambda x: x + 1 if x.sum() > 0 else x - 1), (A,)

def network():
    w = jnp.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    return (lambda x: jax.nn.softmax(jax.nn.relu(x.astype(jnp.float16) @ w.astype(jnp.float16)))), (A[None, :],)

def overflow_of_numbers():
    def f(x):
        most = jax.lax.reduce(x, 0, lambda a, b: jnp.where(a > b, a, b), (0,))  # has no float64 run
        return jax.lax.fori_loop(0, 3, lambda i, c: c * 70000 // 3, 7) % 17 + most
    return f, (jnp.array([1, 2]),)

def inner_programs():
    def f(x, key):
        state, series = jax.lax.scan(lambda c, a: (jnp.tanh(a + c), c.sum()), x, jnp.stack([x, x]))
        chosen = jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, state)
        return chosen.at[0].add(1.0) + jax.random.normal(jax.random.wrap_key_data(key), (3,)), series
    return f, (A, jax.random.PRNGKey(0))
"""
A, B = np.array([1, 2, 3], np.float32), np.array([0.5, 0.25, 0.125], np.float32)
EXPECTED: dict[str, Arrays] = {
    "structures": {"z": A - B, "pair.0": A + B, "pair.1.0": B, "pair.1.1": np.asarray(3, np.int32)},
    "same_shapes": {"output": A - 2 * B + 4 * A * B},
    "no_inputs": {"output": np.array([1, 2, 3, 4], np.float32)},
    "zero_dimensional": {"output": np.asarray(4, np.float32)},
    "empty": {"output": np.zeros((0, 3), np.float32)},
    "input_returned": {"0": A, "1": A + B},
    "loops": {"output": A * 8 + 4},
    "integers": {"0": np.array([3, 3, 5], np.int32), "1": np.array([False, True, True])},
}
ON_TENSORFLOW = ("tensorflow", "tensorflow-xla", "tflite", "tflite:delegate=none", "tflite:kernels=reference")
NETWORK = np.exp([0.0, 0.6]) / np.exp([0.0, 0.6]).sum()  # [2.2, 2.8] after the product


CaseOf = Callable[[str, str, str, str], Case]


@pytest.fixture(scope="module")
def case_of(checker: Checker, tmp_path_factory: pytest.TempPathFactory) -> CaseOf:
    """A program of a framework, on a target, by its text and name. It is opened once for all targets, which load it
    again, each in its own worker."""
    folder = tmp_path_factory.mktemp("programs")
    numbers = itertools.count()

    @cache
    def opened(text: str, name: str) -> LoadedProgram:
        file = folder / f"programs{next(numbers)}.py"
        file.write_text(text)
        return open_program(f"{file}:{name}", checker.pool, CheckOptions())

    def made(framework: str, text: str, name: str, target: str) -> Case:
        pytest.importorskip(framework)
        program = opened(text, name)
        inputs = (Inputs(program.example, "example"),) * 2
        return Case(program.program, inputs, tuple(parse_targets(target)), CheckOptions())

    return made


def execute(checker: Checker, case: Case) -> Execution:
    return checker.execute(case, case.targets[0])


def assert_outputs(execution: Execution, expected: Arrays, *, renamed: bool) -> None:
    assert execution.outcome is Outcome.OK, execution.failure
    for outputs in execution.outputs:
        if renamed:
            outputs = dict(zip(expected, outputs.values(), strict=True))
        assert set(outputs) == set(expected)
        for name, array in expected.items():
            assert outputs[name].dtype == array.dtype
            np.testing.assert_allclose(outputs[name], array, rtol=1e-6)


@pytest.mark.parametrize("target", ON_TENSORFLOW)
@pytest.mark.parametrize("name", EXPECTED)
def test_tensorflow_programs(checker: Checker, case_of: CaseOf, name: str, target: str) -> None:
    case = case_of("tensorflow", TENSORFLOW, name, target)
    assert_outputs(execute(checker, case), EXPECTED[name], renamed=target.startswith("tflite"))


@pytest.mark.parametrize("target", ["xla", "xla:jit=off"])
@pytest.mark.parametrize("name", EXPECTED)
def test_jax_programs(checker: Checker, case_of: CaseOf, name: str, target: str) -> None:
    case = case_of("jax", JAX, name, target)
    assert_outputs(execute(checker, case), EXPECTED[name], renamed=False)


def test_numbers_of_python_in_a_loop_overflow_in_the_reference_too(checker: Checker, case_of: CaseOf) -> None:
    case = case_of("jax", JAX, "overflow_of_numbers", "xla")
    outcome = checker.check(case)
    (result,) = outcome.results
    assert outcome.reference.samples[0].native["output"] == 9
    assert result.verdict.judgement is Judgement.PASS, result.verdict.reason


def test_wide_inputs_are_not_narrowed_by_jax(checker: Checker, case_of: CaseOf) -> None:
    case = case_of("jax", JAX, "wide", "xla")
    expected = {"0": np.array([2**40 + 1]), "1": np.array([1 / 3])}
    assert_outputs(execute(checker, case), expected, renamed=False)


def test_another_programs_precision_does_not_leak(checker: Checker, case_of: CaseOf) -> None:
    switched = JAX + "\njax.config.update('jax_enable_x64', True)\n"
    execute(checker, case_of("jax", switched, "no_inputs", "xla"))
    after = execute(checker, case_of("jax", JAX + "\n", "no_inputs", "xla"))  # opened after it, too
    assert after.outputs[0]["output"].dtype == np.float32


@pytest.mark.parametrize(
    ("name", "target", "stage"),
    [
        ("strings", "tensorflow-xla", Stage.COMPILE),
        ("draws", "tensorflow-xla", Stage.COMPILE),
        ("bfloat", "tflite", Stage.CONVERT),
        ("keeps_state", "tflite", Stage.CONVERT),
        ("looks_up", "tflite:quantise=int8", Stage.CONVERT),
    ],
)
def test_what_tensorflow_does_not_support_is_a_rejection(
    checker: Checker, case_of: CaseOf, name: str, target: str, stage: Stage
) -> None:
    execution = execute(checker, case_of("tensorflow", TENSORFLOW, name, target))
    assert execution.outcome is Outcome.REJECTED
    assert execution.stage is stage


def test_python_that_depends_on_values_is_a_rejection(checker: Checker, case_of: CaseOf) -> None:
    execution = execute(checker, case_of("jax", JAX, "branches", "xla"))
    assert execution.outcome is Outcome.REJECTED


@pytest.mark.parametrize("target", ["tensorflow", "tensorflow-xla"])
def test_variables_are_put_back_after_each_run(checker: Checker, case_of: CaseOf, target: str) -> None:
    case = case_of("tensorflow", TENSORFLOW, "keeps_state", target)
    assert_outputs(execute(checker, case), {"output": 2 * (A + 1)}, renamed=False)


@pytest.mark.parametrize(
    ("mode", "told"),
    [("float16", "supported_types"), ("dynamic", "Optimize.DEFAULT"), ("int8", "representative_dataset")],
)
def test_a_script_quantises_as_its_target_does(mode: str, told: str) -> None:
    backend = BACKENDS.get("tflite")
    for call in backend.script_calls("tensorflow", {"quantise": mode}):
        compile(call.text, "script", "exec")
        assert told in call.text and "Optimize" not in "".join(c.text for c in backend.script_calls("tensorflow", {}))
    assert not backend.script_calls("torch", {"quantise": mode})  # litert-torch converts it, without


def test_a_converter_that_makes_an_invalid_model_is_no_rejection() -> None:
    from driftline.backends.tflite import TfLite

    words = "tensorflow/lite/kernels/fully_connected.cc:262 NumElements(bias) != SizeOfDimension(filter, 0) (1 != 2)"
    assert not TfLite().is_rejection(RuntimeError(words + "Node number 0 (FULLY_CONNECTED) failed to prepare."))


@pytest.mark.parametrize(("framework", "text"), [("tensorflow", TENSORFLOW), ("jax", JAX)])
def test_the_float64_run_computes_small_floats_in_float64(
    checker: Checker, case_of: CaseOf, framework: str, text: str
) -> None:
    case = case_of(framework, text, "network", "tensorflow" if framework == "tensorflow" else "xla")
    sample = checker.reference(case).samples[0]
    assert sample.native["output"].dtype == np.float16
    assert sample.exact is not None, sample.note
    np.testing.assert_allclose(sample.exact["output"][0], NETWORK, rtol=1e-7)  # inputs and weights are float32


def test_a_keras_model_has_a_float64_run(checker: Checker, case_of: CaseOf) -> None:
    sample = checker.reference(case_of("tensorflow", TENSORFLOW, "keras_network", "tensorflow")).samples[0]
    assert sample.exact is not None, sample.note
    np.testing.assert_allclose(sample.exact["output"], sample.native["output"], rtol=1e-4, atol=1e-6)


def test_an_operation_without_a_float64_kernel_has_no_float64_run(checker: Checker, case_of: CaseOf) -> None:
    case = case_of("tensorflow", TENSORFLOW, "fixed_to_float", "tensorflow")
    sample = checker.reference(case).samples[0]
    assert sample.exact is None
    assert "ResizeBilinear" in sample.note


def test_inner_programs_of_jax_are_lifted_too(checker: Checker, case_of: CaseOf) -> None:
    sample = checker.reference(case_of("jax", JAX, "inner_programs", "xla")).samples[0]
    assert sample.exact is not None, sample.note
    for name, exact in sample.exact.items():
        assert exact.dtype == np.float64
        np.testing.assert_allclose(exact, sample.native[name], rtol=1e-5)


def test_scripts_for_tflite_choose_the_kernels_of_their_target() -> None:
    backend = BACKENDS.get("tflite")
    texts = {
        setting: "".join(call.text for call in backend.script_calls("tensorflow", options))
        for setting, options in {
            "plain": {},
            "none": {"delegate": "none"},
            "reference": {"kernels": "reference"},
        }.items()
    }
    assert "resolver" not in texts["plain"]
    assert texts["none"].count("OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)") == 2
    assert texts["reference"].count("OpResolverType.BUILTIN_REF)") == 2
    assert not backend.script_calls("tensorflow", {"runtime": "litert"}), "a script has TensorFlow's interpreter"
    assert not backend.script_calls("torch", {"delegate": "none"})
