"""A target that fails whatever it is given is reported as broken, once, and shows no bugs."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from typed import typed

PLUGIN = str(Path(__file__).with_name("broken_everywhere.py"))
PLACE = ("--plugin", PLUGIN, "--json", "--store")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "exp.onnx"
    text = '<ir_version: 8, opset_import: ["": 18]> g (float[4] x) => (float[4] y) { y = Exp (x) }'
    onnx.save(onnx.parser.parse_model(text), str(path))
    return str(path)


def test_hunt_on_a_broken_target_says_so_once_and_finds_no_bugs(store_folder: Path) -> None:
    hunt = ("hunt", "--targets", "broken-everywhere", "--programs", "20", "--generators", "graph")
    done = typed(*hunt, *PLACE, str(store_folder))
    answer = json.loads(done.stdout)
    assert done.returncode == 4 and answer["bugs"] == [] and answer["suspects"] == {}
    assert "even a sum of two ordinary tensors fails" in answer["stopped"]["broken-everywhere"]
    assert "ImportError" in answer["stopped"]["broken-everywhere"]
    assert done.stderr.count("cannot import name") == 1
    again = typed("hunt", "--resume", "--programs", "40", *PLACE, str(store_folder))
    assert again.returncode == 4 and json.loads(again.stdout)["bugs"] == [], "nor when the hunt goes on"


@pytest.mark.parametrize("target", ["broken-everywhere", "broken-exit"])
def test_check_on_a_broken_target_blames_the_target(model: str, store_folder: Path, target: str) -> None:
    done = typed("check", model, "--targets", f"{target},onnxruntime", *PLACE, str(store_folder))
    answer = json.loads(done.stdout)
    assert done.returncode == 4 and answer["bugs"] == []
    assert [row["target"] for row in answer["results"]] == ["onnxruntime"]
    (skipped,) = answer["skipped"]
    assert skipped["target"] == target and "it is broken" in skipped["reason"]


def test_target_that_fails_every_second_time_is_unreliable(model: str, store_folder: Path) -> None:
    hunt = ("hunt", "--targets", "broken-every-second", "--programs", "20", "--generators", "graph")
    done = typed(*hunt, *PLACE, str(store_folder))
    answer = json.loads(done.stdout)
    assert answer["bugs"] == [] and answer["suspects"] == {}
    assert "it is unreliable: a copy of an ordinary tensor fails in 1 of 2 runs" in str(answer["stopped"])
    done = typed("check", model, "--targets", "broken-every-second", *PLACE, str(store_folder))
    answer = json.loads(done.stdout)
    assert answer["bugs"] == [] and "it is unreliable" in answer["skipped"][0]["reason"]


def test_error_of_one_operator_is_a_bug_of_its_program(model: str, store_folder: Path) -> None:
    done = typed("check", model, "--targets", "broken-exp", *PLACE, str(store_folder))
    (bug,) = json.loads(done.stdout)["bugs"]
    assert done.returncode == 1 and bug["fingerprint"]["kind"] == "error"
