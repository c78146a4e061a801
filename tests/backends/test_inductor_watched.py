"""A compiler whose rules were watched once goes on as if it had not been watched."""

from __future__ import annotations

import pickle

import pytest

pytest.importorskip("torch")


def test_keys_of_the_cache_can_still_be_made() -> None:
    """They hold the function that selects decompositions; a warning in every log said that it could not be pickled."""
    import torch._inductor.compile_fx as compile_fx
    from torch._inductor.decomposition import select_decomp_table

    from driftline.backends.inductor_rules.recorder import recorder

    with recorder().recording(frozenset()):
        pass
    watched = compile_fx.select_decomp_table
    assert watched is not select_decomp_table
    assert pickle.loads(pickle.dumps(watched)) is select_decomp_table
