"""Real compilers, real bugs: ablation names the optimiser, pass, rule or lowering that is to blame."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from driftline.backends import BACKENDS, resolve
from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.core.verdict import Judgement
from driftline.diagnose.ablate.ablator import Ablation, ablate_case
from driftline.diagnose.reduce.reducer import DoesNotFail
from driftline.diagnose.reduce.signature import Signature
from driftline.diagnose.trials import Trials
from driftline.testing import planted_plugin

EXAMPLES = Path(__file__).parents[2] / "examples" / "bugs"


def ablated(checker: Checker, text: str, target: str, budget: float = 300) -> Ablation:
    load_plugins([planted_plugin()])
    options = CheckOptions(plugins=(planted_plugin(),))
    opened = open_source(SourceBundle("model.py", "program", {"model.py": dedent(text)}), checker.pool, options)
    case = Case(opened.program, (Inputs(opened.example, "example"),), (Target.parse(target),), options)
    (result,) = checker.check(case).results
    assert result.verdict.judgement is Judgement.FAIL, result.verdict.reason
    signature = Signature.of_verdict(result.execution, result.verdict)
    return ablate_case(checker, case, Trials(checker, case, signature), budget=budget)


def example(name: str) -> str:
    return (EXAMPLES / name).read_text()


def sharpest(found: Ablation) -> list[str]:
    assert found.cures, found.note
    assert all(cure.confirmed for cure in found.cures)
    return [knob.name for knob in found.cures[0].knobs]


def test_the_optimiser_of_onnxruntime_is_named(checker: Checker) -> None:
    found = ablated(checker, example("onnxruntime_relu_clip_float64.py"), "onnxruntime")
    assert sharpest(found) == ["FuseReluClip"]
    assert [cure.title for cure in found.cures] == ["FuseReluClip", "opt=off"]
    assert [knob.name for knob in found.harmless] == ["opt=basic", "opt=extended"]
    assert found.queries < 20


def test_an_option_that_brings_the_bug_is_a_cure_when_it_goes(checker: Checker) -> None:
    found = ablated(checker, example("onnxruntime_relu_clip_float64.py"), "onnxruntime:disable=GeluFusion")
    assert sharpest(found) == ["FuseReluClip"]
    assert str(found.cures[0].target) == "onnxruntime:disable=GeluFusion+FuseReluClip"


ZEROS = """
    import numpy as np
    from onnx import parser

    MODEL = '''
    <ir_version: 8, opset_import: ["": 18]>
    zeros (float[2] x) => (float[2] y) <float zero = {0.0}, float one = {1.0}> {
        same = Mul(x, one)
        positive = Add(same, zero)
        y = Reciprocal(positive)
    }
    '''


    def program():
        return parser.parse_model(MODEL), {"x": np.array([-0.0, 1.0], dtype=np.float32)}
"""


@pytest.mark.skipif(not BACKENDS.get("onnxscript").installed().available, reason="onnxscript is not installed")
def test_the_rewrite_rule_of_onnxscript_is_named(checker: Checker) -> None:
    """-0.0 + 0.0 is 0.0, so the addition does something; that the multiplication goes is right."""
    found = ablated(checker, ZEROS, "onnxscript")
    assert len(found.at_work) == 2
    [rule] = sharpest(found)
    assert str(found.cures[0].target) == f"onnxscript:skip={rule}"
    assert "Add" in found.cures[0].knobs[0].about
    again = ablated(checker, ZEROS, f"onnxscript:rules={rule}")
    assert [knob.name for knob in again.at_work] == [rule]


def test_a_kernel_is_not_an_option(checker: Checker) -> None:
    found = ablated(checker, example("openvino_abs_int64.py"), "openvino")
    assert not found.cures
    assert found.note.startswith("nothing that can be switched off")
    usual = {"snippets", "low_precision", "mode", "kernel_cache"}
    assert {knob.option for knob in found.harmless} - {"isa"} == usual, "some processors have several instruction sets"


def test_a_compiler_without_knobs_says_so(checker: Checker) -> None:
    found = ablated(checker, NEGATE, "planted-wrong-on:op=neg")
    assert not found.cures
    assert found.note.startswith("nothing of this compiler can be switched off")


def test_what_passes_is_not_ablated(checker: Checker) -> None:
    text = example("onnxruntime_relu_clip_float64.py")
    options = CheckOptions()
    opened = open_source(SourceBundle("model.py", "program", {"model.py": text}), checker.pool, options)
    case = Case(opened.program, (Inputs(opened.example, "example"),), (Target.parse("onnxruntime:opt=off"),), options)
    with pytest.raises(DoesNotFail):
        ablate_case(checker, case, Trials(checker, case, Signature("COMPILE", "error", "Fail")), budget=900)


@pytest.mark.slow
def test_the_lowering_of_inductors_own_planted_bug(checker: Checker) -> None:
    text = """
        import torch
        def model(x):
            return torch.relu(torch.tanh(x) + 0.1) * 2
        def program():
            return model, (torch.linspace(-2, 2, 16),)
    """
    found = ablated(checker, text, "inductor:inject_relu_bug=accuracy", budget=600)
    assert sharpest(found) == ["lowered/aten.relu.default"]
    assert "without inject_relu_bug" in [cure.title for cure in found.cures]


@pytest.mark.slow
def test_rules_that_stand_in_for_each_other_are_named_together(checker: Checker) -> None:
    """Where one attention rule is forbidden, the next one matches: both have to go."""
    text = """
        import torch
        def model(q, k, v):
            return torch.softmax(torch.matmul(q, k.transpose(-2, -1)).div(2.0), dim=-2).matmul(v)
        def program():
            torch.manual_seed(0)
            return model, tuple(torch.randn(2, 4, 8, 16) for _ in range(3))
    """
    found = ablated(checker, text, "inductor", budget=600)
    assert all(name.startswith("_sfdp_pattern") for name in sharpest(found))
    assert "pattern_matcher=false" in [cure.title for cure in found.cures]


def test_the_pass_of_xla_is_named(checker: Checker) -> None:
    """XLA makes y * log(x) of log(pow(x, y)), which is no longer NaN where the power is."""
    text = """
        import jax.numpy as jnp
        import numpy as np
        def program():
            return (lambda x: jnp.log(jnp.power(x, x))), (np.array([-1.5, 2.0, -0.5], dtype=np.float32),)
    """
    found = ablated(checker, text, "xla")
    assert sharpest(found) == ["algsimp"]
    assert [cure.title for cure in found.cures] == ["algsimp", "jit=off"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("iree:flags=--iree-opt-const-eval", "without dashes"),
        ("xla:disable=algsimp+a,b", "no name of a pass"),
        ("openvino:snippets=maybe", "Valid values: true, false"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(target: str, words: str) -> None:
    with pytest.raises(DriftlineError, match=words):
        resolve(Target(*_parts(target)))


def _parts(text: str) -> tuple[str, None, tuple[tuple[str, str], ...]]:
    """Without the grammar of lists, in which a comma begins another target."""
    backend, _, option = text.partition(":")
    key, _, value = option.partition("=")
    return backend, None, ((key, value),)


NEGATE = """
    import numpy as np
    from onnx import parser
    def program():
        text = '<ir_version: 8, opset_import: ["": 18]> f (float[4] x) => (float[4] y) { y = Neg(x) }'
        return parser.parse_model(text), {"x": np.arange(4, dtype=np.float32)}
"""
SINE = """
    import jax.numpy as jnp
    import numpy as np
    def program():
        return lambda x: jnp.log(jnp.sin(x) + 2).sum(), (np.arange(4, dtype=np.float32),)
"""


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (NEGATE, "iree:flags=iree-opt-const-eval=false+iree-llvmcpu-target-cpu=generic"),
        (NEGATE, "openvino:snippets=false:low_precision=false:mode=accuracy:kernel_cache=false"),
        (NEGATE, "tvm:skip=tirx.UnrollLoop"),
        (SINE, "xla:opt=0:fusion_emitters=false:disable=algsimp+fusion"),
    ],
)
def test_knobs_reach_the_compiler(checker: Checker, text: str, target: str) -> None:
    if not BACKENDS.get(Target.parse(target).backend).installed().available:
        pytest.skip("not installed")
    options = CheckOptions()
    opened = open_source(SourceBundle("model.py", "program", {"model.py": dedent(text)}), checker.pool, options)
    case = Case(opened.program, (Inputs(opened.example, "example"),), (Target.parse(target),), options)
    (result,) = checker.check(case).results
    assert result.verdict.judgement is Judgement.PASS, result.verdict.reason


def test_an_unknown_flag_is_the_users_mistake(checker: Checker) -> None:
    if not BACKENDS.get("iree").installed().available:
        pytest.skip("not installed")
    options = CheckOptions()
    opened = open_source(SourceBundle("model.py", "program", {"model.py": dedent(NEGATE)}), checker.pool, options)
    target = Target.parse("iree:flags=iree-no-such-flag=1")
    (result,) = checker.check(Case(opened.program, (Inputs(opened.example, "example"),), (target,), options)).results
    assert result.verdict.judgement is Judgement.INCONCLUSIVE
    assert "option not found" in result.execution.problem
