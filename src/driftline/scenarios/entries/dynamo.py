"""`torch._dynamo.optimize`, the older name of `torch.compile`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch._dynamo

from driftline.scenarios.entries.making import called_by_library, put_in_place
from driftline.scenarios.recorder import CallRecorder


@contextmanager
def installed(recorder: CallRecorder) -> Iterator[None]:
    """A context in which the recorder records calls of `torch._dynamo.optimize` and what they compile."""
    real = torch._dynamo.optimize

    def optimize(backend: Any = "inductor", **options: Any) -> Any:
        if called_by_library():
            return real(backend, **options)
        recorder.ignore_backend(backend)
        made = real(recorder.backend or backend, **options)
        return lambda model: recorder.recorded_as(made(model), model)

    with put_in_place(torch._dynamo, optimize=optimize):
        yield
