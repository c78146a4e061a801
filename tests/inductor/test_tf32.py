"""TF32 in the user's own process: KernelDiff computes without it and says so, or allows for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from driftline.inductor import KernelDiffHarness, kernel_diff  # noqa: E402
from driftline.inductor.tf32 import kinds_with_tf32, without_tf32  # noqa: E402

CUDNN, PRODUCTS = torch.backends.cudnn, torch.backends.cuda.matmul
DEFAULT = ("convolutions", "recurrences")


@pytest.fixture(autouse=True)
def settings_put_back() -> Iterator[None]:
    with getattr(torch.backends, "__allow_nonbracketed_mutation")():  # other tests may have frozen them
        yield
        torch.backends.fp32_precision = "none"
        torch.set_float32_matmul_precision("highest")
        CUDNN.allow_tf32 = True


def legacy() -> tuple[Any, ...]:
    """The old switches, or that torch refuses to read one."""
    found = []
    for read in (lambda: CUDNN.allow_tf32, lambda: PRODUCTS.allow_tf32, torch.get_float32_matmul_precision):
        try:
            found.append(read())
        except RuntimeError:
            found.append("cannot be read")
    return tuple(found)


def use_old_switches() -> None:
    PRODUCTS.allow_tf32 = True


def use_precision() -> None:
    torch.set_float32_matmul_precision("medium")


def use_new_switches() -> None:
    CUDNN.conv.fp32_precision = "ieee"
    PRODUCTS.fp32_precision = "tf32"


def mix_them() -> None:
    CUDNN.allow_tf32 = False
    CUDNN.conv.fp32_precision = "tf32"
    torch.set_float32_matmul_precision("medium")
    PRODUCTS.fp32_precision = "ieee"
    torch.backends.mkldnn.matmul.fp32_precision = "tf32"


@pytest.mark.parametrize("prepare", [lambda: None, use_old_switches, use_precision, use_new_switches, mix_them])
def test_it_is_off_within_and_as_it_was_afterwards(prepare: Any) -> None:
    prepare()
    before = kinds_with_tf32(), legacy()
    with without_tf32():
        assert (kinds_with_tf32(), legacy()) == ((), (False, False, "highest"))
    assert before[0]
    assert (kinds_with_tf32(), legacy()) == before


def test_what_follows_the_general_switch_still_does() -> None:
    for switch in (CUDNN.conv, CUDNN.rnn, PRODUCTS):
        switch.fp32_precision = "none"
    torch.backends.fp32_precision = "ieee"
    with without_tf32():
        pass
    assert kinds_with_tf32() == ()
    torch.backends.fp32_precision = "tf32"
    assert set(kinds_with_tf32()) == {*DEFAULT, "matrix products"}


def test_both_runs_are_made_without_it_unless_it_is_asked_for() -> None:
    seen: list[tuple[str, ...]] = []

    def model(x: Any) -> Any:
        seen.append(kinds_with_tf32())
        return x + 1

    KernelDiffHarness(model, (torch.ones(2),), test_backend="eager").compare()
    assert set(seen) == {()}
    seen.clear()
    KernelDiffHarness(model, (torch.ones(2),), test_backend="eager", tf32=True).compare()
    assert set(seen) == {DEFAULT}


def test_on_a_gpu_it_is_said_or_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU here: a product that is wrong by as much as TF32 would make it stands for one."""
    monkeypatch.setattr(kernel_diff, "_on_gpu", lambda got: True)
    calls: list[int] = []

    def model(x: Any) -> Any:
        calls.append(1)
        return x @ x.T * (1 + 1e-4 * (len(calls) == 2))  # the second call is that of the tested backend

    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    for tf32, judgement, words in ((False, "fail", "both runs were made without it"), (True, "pass", "judged as TF32")):
        calls.clear()
        report = KernelDiffHarness(model, (x,), test_backend="eager", tf32=tf32).compare()
        assert report.outputs[0].judgement == judgement, report.summary()
        assert report.notes[0].startswith("torch is set to compute convolutions and recurrences in TF32")
        assert words in report.notes[0]
