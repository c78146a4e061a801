"""The parallel scan of the state-space model computes the recurrence that it stands for."""

from __future__ import annotations

import pytest
import torch

from driftline.models.state_space import scanned


@pytest.mark.parametrize("length", [1, 2, 7, 64])
def test_the_scan_is_the_recurrence(length: int) -> None:
    generator = torch.Generator().manual_seed(length)
    decay = torch.rand(2, length, 3, 4, generator=generator, dtype=torch.float64)
    update = torch.randn(2, length, 3, 4, generator=generator, dtype=torch.float64)
    state = torch.zeros(2, 3, 4, dtype=torch.float64)
    states = []
    for step in range(length):
        state = decay[:, step] * state + update[:, step]
        states.append(state)
    torch.testing.assert_close(scanned(decay, update), torch.stack(states, dim=1))
