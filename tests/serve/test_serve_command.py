"""`driftline serve` as it is typed: what it prints, how it ends, and what is said when it cannot start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from filled_store import add_bug

from driftline.causes import builtin
from driftline.cli import run
from driftline.core.verdict import Kind
from driftline.serve import records
from driftline.serve.keeper import STOPPED, JobKeeper
from driftline.serve.progress_writer import STARTING
from driftline.serve.settings import ServeSettings
from driftline.store import Store
from driftline.testing import planted_plugin


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with Store.create(tmp_path / "store") as store:
        add_bug(store, Kind.ERROR)
    return tmp_path / "store"


def test_it_prints_an_address_answers_and_stops_its_jobs_at_the_end(
    store: Path, eventually: Callable[..., None]
) -> None:
    words = ["serve", "--store", str(store), "--port", "0", "--json", "--plugin", planted_plugin()]
    server = subprocess.Popen(
        [sys.executable, "-m", "driftline", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert server.stdout
        told = b""
        while not told.endswith(b"}\n"):
            line = server.stdout.readline()
            assert line, server.communicate()
            told += line
        said = json.loads(told)
        origin = f"http://127.0.0.1:{said['port']}"
        assert said["address"].startswith(f"{origin}/?token=") and said["store"] == str(store)
        with httpx.Client(base_url=origin, headers={"Origin": origin}, timeout=60) as client:
            assert "1 bug in 1 compiler" in client.get(said["address"], follow_redirects=True).text
            program = "def program():\n    import time\n    time.sleep(3600)\n"
            job = client.post("/jobs/new/check", data={"text": program, "targets": "onnx-reference"})
            assert job.headers["location"] == "/jobs/1"
            keeper = JobKeeper(ServeSettings(store=store, library=builtin()))
            eventually(lambda: keeper.job(1).progress.doing not in ("", STARTING), 120)
            with client.stream("GET", "/jobs/1/stream") as stream:  # a page that is open does not keep it from ending
                next(stream.iter_lines())
                server.send_signal(signal.SIGINT)
                _, said_at_end = server.communicate(timeout=120)
    finally:
        server.kill()
    assert server.returncode == 0, said_at_end
    assert said_at_end.decode().strip() == "driftline: Stopping 1 job; they can be resumed."
    assert keeper.job(1).state == STOPPED and keeper.job(1).progress.code == records.INTERRUPTED


def test_a_port_that_is_taken(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(["serve", "--store", str(store), "--port", str(port)]) == 2
    assert f"--port {port}: another program listens there. Name another port" in capsys.readouterr().err


def test_a_store_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--store", str(tmp_path / "none")]) == 2
    assert f"There is no store in {tmp_path / 'none'}." in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_store_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "store.db").write_text("not a database")
    assert run(["serve", "--store", str(tmp_path)]) == 2
    assert "is not a Driftline store" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0 lets other machines in: whoever has the token can run programs here"),
        (["--host", "no.such.host.invalid", "--expose"], "this machine has no such address"),
        (["--host", "192.0.2.1", "--expose"], "cannot listen there"),
        (["--compare", "nowhere"], "There is no store in nowhere."),
        (["--folder", "nowhere"], "--folder nowhere: there is no such folder."),
        (["--plugin", "nowhere.py"], "nowhere.py"),
    ],
)
def test_what_cannot_be_had(store: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert run(["serve", "--store", str(store), "--port", "0", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error and len(error.strip().splitlines()) == 1


def test_without_its_packages_the_command_says_what_to_install(store: Path) -> None:
    code = (
        "import sys\nsys.modules['uvicorn'] = None\nfrom driftline.cli import run\n"
        f"sys.exit(run(['serve', '--store', {str(store)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 4
    assert "pip install 'driftline[serve]'" in done.stderr and "Traceback" not in done.stderr


def test_the_server_imports_no_compiler() -> None:
    code = (
        "import sys, driftline.serve.server, driftline.serve.forms\n"
        "from driftline.serve.settings import ServeSettings\nfrom driftline.causes import builtin\n"
        "from pathlib import Path\n"
        "driftline.serve.server.build(ServeSettings(store=Path('x'), library=builtin()))\n"
        "print(sorted({'torch', 'onnx', 'onnxruntime', 'jax', 'tensorflow', 'tvm', 'openvino'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
