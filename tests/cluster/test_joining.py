"""Where a cluster is, and what its nodes must have."""

from __future__ import annotations

import pytest

from driftline.backends import BACKENDS
from driftline.cli import run
from driftline.cluster import joined
from driftline.cluster.joined import ClusterAddress
from driftline.cluster.resources import pinned, resource_of, resources_here
from driftline.core.errors import DriftlineError
from driftline.core.target import Target


@pytest.mark.parametrize("text", ["ray://head:10001", "10.0.0.1:6379", "[::1]:6379", "auto", "local:2", "local:16"])
def test_addresses(text: str) -> None:
    assert ClusterAddress.parse(text).local_nodes == (int(text[6:]) if text.startswith("local") else 0)


@pytest.mark.parametrize("text", ["", "local", "local:0", "local:", "head", "http://head:1/x", "local:2;rm"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(DriftlineError, match=r"--cluster .*local:2"):
        ClusterAddress.parse(text)


def test_a_release_that_no_node_has_is_named() -> None:
    target = Target.parse("onnxruntime@1.20.0")
    assert resource_of(target) == "onnxruntime-1.20.0"
    assert pinned(target, {"CPU": 4.0}) == {}, "where no node says what it has, any will do"
    assert pinned(target, {"onnxruntime-1.20.0": 1000.0}) == {"onnxruntime-1.20.0": 1.0}
    with pytest.raises(DriftlineError, match=r"No node of the cluster has onnxruntime 1\.20\.0.*onnxruntime-1\.31"):
        pinned(target, {"onnxruntime-1.31.1": 1000.0})


def test_a_node_tells_what_is_installed() -> None:
    here = resources_here()
    assert here[f"onnxruntime-{BACKENDS.get('onnxruntime').version()}"] > 0


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "find_spec", lambda name: None)
    with pytest.raises(DriftlineError, match=r"needs Ray.*driftline\[cluster\]"):
        joined.require_ray()


def test_a_bad_address_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hunt", "--cluster", "nowhere", "--targets", "onnxruntime"]) == 2
    said = capsys.readouterr().err
    assert "give ray://HOST:10001" in said and "Traceback" not in said
