"""Settings of the compilers themselves as options of targets, and TVM's own targets: on real compilers."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from driftline.backends import BACKENDS, resolve
from driftline.backends.inductor_settings import config_names
from driftline.backends.xla_dumps import ProcessDumps
from driftline.checking.batch import Screening
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.checking.settings import require_settings
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.execution import Outcome
from driftline.core.processor import ARM, X86, Processor, this_processor
from driftline.core.program import Program, file_digest
from driftline.core.target import Target
from driftline.execute.pool import Pool, WorkerStartError
from driftline.execute.worker_kind import environment_of
from driftline.execute.workspace import Workspace
from driftline.generate.graph import Graph, Leaf, Node, TensorType

OLD_X86 = Processor(X86, frozenset("sse4_1 sse4_2 ssse3 popcnt avx avx2 fma bmi2 f16c".split()))
WIDE_X86 = Processor(X86, OLD_X86.features | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split()))
SMALL_ARM = Processor(ARM, frozenset(("fp", "asimd")))


@pytest.fixture
def case(tmp_path: Path) -> Case:
    graph = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    program = Program("onnx", "onnx", file_digest(path), path, "model.onnx")
    return Case(program, (Inputs({"x": np.linspace(-1, 1, 5, dtype=np.float32)}, "example"),), (), CheckOptions())


@pytest.mark.parametrize(
    "target",
    [
        "onnxruntime:session.disable_prepacking=true",
        "openvino:ENABLE_CPU_PINNING=false",
        'tvm:target="llvm -mcpu=generic"',
        "tvm:mcpu=native:tirx.disable_vectorize=true",
        "iree:cpu=generic:iree-opt-const-eval=false",
    ],
)
def test_a_setting_reaches_the_compiler(pool: Pool, checker: Checker, case: Case, target: str) -> None:
    chosen = Target.parse(target)
    require_settings(pool, [chosen])
    execution = checker.execute(case, chosen)
    assert execution.outcome is Outcome.OK, execution
    assert np.allclose(execution.outputs[0]["y"], np.exp(case.samples[0].arrays["x"]))


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("onnxruntime:session.disable_prepackin=1", "Did you mean 'session.disable_prepacking'"),
        ("openvino:ENABLE_CPU_PINING=false", "Did you mean 'ENABLE_CPU_PINNING'"),
        ("openvino:ENABLE_CPU_PINNING=maybe", "does not take ENABLE_CPU_PINNING=maybe"),
        ("tvm:tirx.disable_vectorise=true", "Did you mean 'tirx.disable_vectorize'"),
        ("tvm:tirx.disable_vectorize=maybe", "to have type bool"),
        ("iree:iree-opt-const-evall=false", "Did you mean 'iree-opt-const-eval'"),
        ("iree:iree-opt-const-eval=maybe", "iree-opt-const-eval=maybe is not valid"),
    ],
)
def test_the_compiler_says_what_it_does_not_have(pool: Pool, target: str, told: str) -> None:
    with pytest.raises(DriftlineError, match=told):
        require_settings(pool, [Target.parse(target)])


def test_a_compiler_that_cannot_start_is_not_asked(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot_start(*_: object, **__: object) -> None:
        raise WorkerStartError("tvm cannot be imported")

    monkeypatch.setattr(pool, "run", cannot_start)
    require_settings(pool, [Target.parse("tvm:tirx.disable_vectorize=true")])  # its row or lane says it


def test_flags_of_xla(pool: Pool) -> None:
    require_settings(pool, [Target.parse("xla:xla_cpu_enable_fast_math=false:xla_cpu_prefer_vector_width=128")])
    with pytest.raises(DriftlineError, match="Did you mean 'xla_cpu_enable_fast_math'"):
        require_settings(pool, [Target.parse("xla:xla_cpu_enable_fast_maths=true")])
    with pytest.raises(DriftlineError, match="not a valid int32 value"):
        require_settings(pool, [Target.parse("xla:xla_cpu_prefer_vector_width=wide")])


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("inductor:freezin=true", "Did you mean 'freezing'"),
        ("inductor:cpp.simdlenn=1", "Did you mean 'cpp.simdlen'"),
        ("inductor:max_fusion_size=many", "must be int, not 'many'"),
        ("inductor:cpp.dynamic_threads=3", "must be bool, not 3"),
        ("tvm:target=cuda", "must be one of LLVM"),
        ("tvm:mcpu=generic:target=llvm", "give one of target and mcpu"),
        ("tvm:target=llvm mcpu", "is no option"),
        ("openvino:isa=sse9", "Valid values: sse41"),
    ],
)
def test_mistakes_that_need_no_compiler(target: str, told: str) -> None:
    with pytest.raises(DriftlineError, match=told):
        resolve(Target.parse(target))


def test_every_name_of_the_configuration_of_inductor_is_an_option() -> None:
    names = config_names()
    assert {"freezing": "bool", "cpp.simdlen": "int | None"}.items() <= names.items() and len(names) > 300
    for target in ("inductor:cpp.enable_loop_tail_vec=false", "inductor:cpp.simdlen=none:compile_threads=1"):
        resolve(Target.parse(target))
    assert resolve(Target("inductor")).settings_text({"cpp.enable_loop_tail_vec": "false", "layout": "false"}) == (
        "torch._inductor.config.cpp.enable_loop_tail_vec = False, torch._inductor.config.layout_optimization = False"
    )
    resolve(Target.parse("inductor@2.9.0:a_name_of_that_release=1"))  # it is asked itself


@pytest.mark.parametrize(
    ("backend", "options", "told"),
    [
        ("onnxruntime", {"session.disable_prepacking": "true"}, '("session.disable_prepacking", "1")'),
        ("openvino", {"SNIPPETS_MODE": "DISABLE"}, '"SNIPPETS_MODE": "DISABLE"'),
        ("tvm", {"mcpu": "generic"}, "target=tvm.target.Target({'kind': 'llvm', 'mcpu': 'generic'})"),
        ("tvm", {"tirx.disable_vectorize": "true"}, "config={'tirx.disable_vectorize': True}"),
        ("iree", {"cpu": "generic"}, '"--iree-llvmcpu-target-cpu=generic"'),
    ],
)
def test_scripts_have_the_settings(backend: str, options: Mapping[str, str], told: str) -> None:
    (call,) = BACKENDS.get(backend).script_calls("onnx", options)
    ast.parse(call.text)
    assert told in call.text


@pytest.mark.parametrize(
    ("backend", "processor", "expected"),
    [
        ("tvm", OLD_X86, ["mcpu=x86-64", "mcpu=x86-64-v2", "mcpu=x86-64-v3", "mcpu=native"]),
        ("tvm", SMALL_ARM, ["mcpu=generic", "mcpu=native"]),
        ("inductor", WIDE_X86, ["simdlen=1", "simdlen=256", "simdlen=512"]),
        ("inductor", SMALL_ARM, ["simdlen=1", "simdlen=128"]),
        ("xla", OLD_X86, ["xla_cpu_max_isa=SSE4_2", "xla_cpu_max_isa=AVX"]),
        ("xla", SMALL_ARM, []),
        ("openvino", WIDE_X86, ["isa=sse41", "isa=avx", "isa=avx2"]),
        ("openvino", SMALL_ARM, []),
        ("iree", WIDE_X86, ["cpu=x86-64", "cpu=x86-64-v2", "cpu=x86-64-v3", "cpu=x86-64-v4"]),
        ("iree", SMALL_ARM, ["cpu=generic"]),
        ("onnxruntime", SMALL_ARM, ["mlas.disable_kleidiai=1"]),
        ("onnxruntime", WIDE_X86, []),
        ("eager", WIDE_X86, []),
    ],
)
def test_variants_follow_the_processor(backend: str, processor: Processor, expected: list[str]) -> None:
    variants = BACKENDS.get(backend).isa_variants(processor)
    assert [f"{key}={value}" for options in variants for key, value in options.items()] == expected
    for options in variants:
        resolve(Target(backend, None, tuple(options.items())))


def test_this_processor_is_known() -> None:
    here = this_processor()
    assert here.machine in (X86, ARM) and here.has("sse2" if here.machine == X86 else "asimd")


def test_a_variable_that_is_read_once_has_a_process_of_its_own() -> None:
    from driftline.checking.kinds import worker_for_target

    backend = BACKENDS.get("openvino")
    plain, limited = (worker_for_target(backend, Target.parse(t), ()) for t in ("openvino", "openvino:isa=avx2"))
    assert plain != limited and ("ONEDNN_MAX_CPU_ISA", "AVX2") in limited.variables


def test_flags_and_levels_of_the_user_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    from driftline.checking.kinds import worker_for_target

    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    target = Target.parse("tensorflow-xla:xla_cpu_enable_fast_math=true")
    kind = worker_for_target(BACKENDS.get("tensorflow-xla"), target, ())
    with contextlib.closing(Workspace()) as workspace:
        assert environment_of(kind, workspace)["XLA_FLAGS"] == "--xla_cpu_enable_fast_math=true"
        assert environment_of(kind, workspace)["TF_CPP_MIN_LOG_LEVEL"] == "2"
        monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=true --xla_cpu_enable_fast_math=false")
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
        told = environment_of(kind, workspace)
    assert told["XLA_FLAGS"].split() == [
        "--xla_cpu_multi_thread_eigen=true",
        "--xla_cpu_enable_fast_math=false",
        "--xla_cpu_enable_fast_math=true",
    ], "the target's own come last, since the last one counts"
    assert told["TF_CPP_MIN_LOG_LEVEL"] == "0"


def test_the_user_who_has_xla_write_its_programs_gets_them() -> None:
    dumps = ProcessDumps()
    assert dumps.prepare({"XLA_FLAGS": "--xla_dump_to=/mine"}) == "--xla_dump_to=/mine" and dumps.taken() == []
    ours = dumps.prepare({"XLA_FLAGS": "--xla_a=1"})
    assert ours.startswith("--xla_a=1 --xla_dump_to=") and dumps.prepare({"XLA_FLAGS": ours}) == ours


@pytest.mark.slow
@pytest.mark.skipif(not BACKENDS.get("tensorflow").installed().available, reason="TensorFlow is not installed")
def test_flags_of_xla_in_tensorflow(pool: Pool) -> None:
    require_settings(pool, [Target.parse("tensorflow-xla:xla_cpu_enable_fast_math=true")])
    with pytest.raises(DriftlineError, match=r"ends the process when it is given these settings: .*xla_no_such_flag"):
        require_settings(pool, [Target.parse("tensorflow-xla:xla_no_such_flag=1")])
    [call] = BACKENDS.get("tensorflow-xla").script_calls("tensorflow", {"xla_cpu_enable_fast_math": "true"})
    told = 'os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + \' --xla_cpu_enable_fast_math=true\''
    assert call.setup == (told,)


@pytest.mark.slow
@pytest.mark.skipif(not BACKENDS.get("tensorflow").installed().available, reason="TensorFlow is not installed")
def test_a_process_that_was_asked_about_flags_of_xla_still_tells_which_passes_ran() -> None:
    """XLA reads its flags once: what a program is seen to do must not depend on which process it comes to."""
    target = Target.parse("tensorflow-xla:xla_cpu_enable_fast_math=true")
    kind = TensorType("float32", (4, 8))
    graph = Graph((Leaf("input", kind),), (Node("tanh", (0,), (kind,)), Node("exp", (1,), (kind,))), (2,))
    with Pool() as pool:
        require_settings(pool, [target])
        with Screening(pool, "tensorflow") as screening:
            [result] = screening.screen([ProgramRequest("graph", "tanh", 0, ("random",), "0", graph=graph)], target)
    assert "fusion" in result.behaviour


@pytest.mark.parametrize("options", [{"cpu": "generic"}, {"flags": "iree-llvmcpu-target-cpu=generic"}, {}])
def test_a_script_for_iree_names_the_processor_once(options: dict[str, str]) -> None:
    [call] = BACKENDS.get("iree").script_calls("onnx", options)
    assert call.text.count("--iree-llvmcpu-target-cpu=") == 1
