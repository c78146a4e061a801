"""An audit on another device: how it is asked for, and where programs are made then."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from driftline.backends.inductor_rules.registry import registered
from driftline.cli import run
from driftline.core.errors import DriftlineError
from driftline.patterns.audit import split_device
from driftline.patterns.inductor.draft import live
from driftline.patterns.inductor.fire import draft_of
from driftline.patterns.inductor.placing import on_device, placing
from driftline.patterns.inductor_audit import worker_kind


def test_a_device_is_named_with_the_compiler() -> None:
    assert split_device(["inductor:device=cuda", "tvm"]) == (["inductor", "tvm"], "cuda")
    assert split_device(["tvm"]) == (["tvm"], "cpu")
    assert split_device(None) == (None, "cpu")


@pytest.mark.parametrize("names", [["inductor:freezing=true"], ["tvm:device=cuda"], ["inductor@2.9.0"]])
def test_other_options_are_refused_in_one_sentence(names: list[str]) -> None:
    with pytest.raises(DriftlineError, match="an audit takes compilers without options"):
        split_device(names)


def test_two_devices_are_two_audits() -> None:
    with pytest.raises(DriftlineError, match="one device"):
        split_device(["inductor", "inductor:device=cuda"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_told_before_anything_is_audited_or_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ["--targets", "inductor:device=cuda"]
    for command in (["audit", *there, "--store", str(tmp_path / "store")], ["list", *there]):
        assert run(["patterns", *command]) == 4
        assert "inductor:device=cuda: torch sees no such device here, only cpu." in capsys.readouterr().err


def test_an_ordinary_process_for_rules_sees_no_gpu_and_one_of_a_device_is_not_forked() -> None:
    assert worker_kind().fork and dict(worker_kind().variables)["CUDA_VISIBLE_DEVICES"] == ""
    there = worker_kind(device="cuda")
    assert not there.fork and "CUDA_VISIBLE_DEVICES" not in dict(there.variables)


def test_programs_are_made_on_the_device() -> None:
    """`meta` stands for it: a device that every torch has."""
    rule = next(each for each in registered() if each.search is not None and not each.training)
    with on_device("meta"):
        draft = draft_of(rule, 0)
        values = [node.meta["val"] for node in draft.graph.nodes if "val" in node.meta]
        _, inputs = live(draft.text())
    assert values and {value.device.type for value in values} == {"meta"}
    assert {value.device.type for value in inputs} == {"meta"}
    with placing():
        assert torch.ones(1).device.type == "cpu"
