"""`hunt --settings vary`: what is drawn, and a real hunt with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driftline.backends import resolve
from driftline.campaign.check.target_settings import changed_settings
from driftline.campaign.hunt.plan import choose_lanes
from driftline.campaign.hunt.varied import DRAWN, LOOP_SETTINGS, LOOPS, vary_settings
from driftline.checking.settings import require_settings
from driftline.cli import run
from driftline.core.errors import DriftlineError
from driftline.core.processor import ARM, X86, Processor, this_processor
from driftline.core.target import Target
from driftline.execute.pool import Pool

WANTED = [Target("inductor"), Target.parse("openvino:mode=accuracy"), Target("onnxscript")]


def test_the_seed_says_what_is_drawn() -> None:
    first, _ = vary_settings(WANTED, 1, Processor(ARM))
    assert vary_settings(WANTED, 1, Processor(ARM))[0] == first
    assert len({tuple(vary_settings(WANTED, seed, Processor(ARM))[0]) for seed in range(5)}) == 5
    assert [target for target in first if target in WANTED] == WANTED
    assert len(first) == 2 * (1 + DRAWN) + 1  # onnxscript has no option with values


def test_what_is_skipped_is_told() -> None:
    every, skipped = choose_lanes(None)
    drawn, still = vary_settings(None, 1)
    assert still == skipped and skipped, "ablation targets and compilers that are not here are named with their reasons"
    assert set(every) < set(drawn)


@pytest.mark.parametrize("processor", [Processor(ARM), Processor(X86, frozenset(("sse4_1", "avx", "avx2", "fma")))])
def test_what_may_be_drawn_can_be_used(processor: Processor) -> None:
    for target in (Target(name) for name in ("inductor", "onnxruntime", "openvino", "tvm", "iree", "xla")):
        for options in resolve(target).varied_settings(processor):
            resolve(Target(target.backend, None, tuple(options.items())))
            assert "inject_relu_bug" not in options
    isa = [each["isa"] for each in resolve(Target("openvino")).varied_settings(processor) if "isa" in each]
    assert isa == (["sse41", "avx"] if processor.machine == X86 else [])


def test_the_compilers_have_what_may_be_drawn(pool: Pool) -> None:
    for name in ("onnxruntime", "tvm"):
        backend = resolve(Target(name))
        each = [backend.own_settings(options) for options in backend.varied_settings(this_processor())]
        together = {key: value for options in each for key, value in options.items()}
        assert len(together) >= 3
        require_settings(pool, [Target(name, None, tuple(together.items()))])


def test_settings_of_loops_are_drawn_several_at_a_time() -> None:
    wanted = [Target.parse("inductor:max_fusion_size=4"), Target("iree"), Target("xla"), Target("onnxruntime")]
    drawn, _ = vary_settings(wanted, 3, way=LOOPS)
    assert drawn == vary_settings(wanted, 3, way=LOOPS)[0] and len(drawn) == 3 * (1 + DRAWN) + 1
    sets = [len(target.options) for target in drawn if target.backend == "iree" and target.options]
    assert all(1 < count <= LOOP_SETTINGS[1] for count in sets) and len(sets) == DRAWN
    assert {dict(each.options)["max_fusion_size"] for each in drawn if each.backend == "inductor"} == {"4"}
    assert changed_settings(drawn[5]) == [name for name, _ in drawn[5].options]
    with pytest.raises(DriftlineError, match=r"These have: inductor, iree, (\S+, )*xla"):  # a test's plugin may be one
        vary_settings([Target("onnxruntime")], 3, way=LOOPS)


@pytest.mark.parametrize("name", ["iree", "inductor", pytest.param("xla", marks=pytest.mark.slow)])
def test_the_compilers_have_the_settings_of_their_loops(name: str, pool: Pool) -> None:
    together = {key: value for options in resolve(Target(name)).loop_settings() for key, value in options.items()}
    require_settings(pool, [Target(name, None, tuple(together.items()))])


def test_a_mistyped_word_is_explained(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("hunt --settings varry".split()) == 2
    assert "Did you mean 'vary'?" in capfd.readouterr().err
    assert run("hunt --settings vary --resume".split()) == 2
    assert "leave out --settings" in capfd.readouterr().err


@pytest.mark.slow
def test_a_hunt_with_settings(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = f"hunt --targets onnxruntime --settings vary --programs 4 --json --store {tmp_path / 's'}"
    assert run(command.split()) in (0, 1)
    told = json.loads(capfd.readouterr().out)
    drawn, _ = vary_settings([Target("onnxruntime")], 0)
    assert len(drawn) == 1 + DRAWN
    assert told["programs"] == {str(target): 4 for target in drawn} and told["judged"] > 0
