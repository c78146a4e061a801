"""What a killed build of TorchInductor left is built again, in every release that a target may name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch._inductor import codecache

from driftline.backends.inductor_cache import build_again_what_was_cut

ELF = b"\x7fELF\x02"  # the beginning of a library, and no more


class Builder:
    def __init__(self, target: Path) -> None:
        self.target = target

    def get_target_file_path(self) -> str:
        return str(self.target)


@pytest.mark.parametrize("given", [lambda one: one, lambda one: [one]], ids=["torch 2.7: a builder", "a list"])
def test_a_library_that_was_cut_short_is_built_again(
    given: Callable[[Builder], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "kernel.so"

    def build(lock_path: str, builders: Any) -> None:
        if not target.exists():
            target.write_bytes(b"whole")

    monkeypatch.setattr(codecache, "_worker_compile_cpp", build)
    build_again_what_was_cut()
    target.write_bytes(ELF)
    codecache._worker_compile_cpp(str(tmp_path / "lock"), given(Builder(target)))
    assert target.read_bytes() == b"whole"
