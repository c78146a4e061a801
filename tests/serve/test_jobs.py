"""Jobs over HTTP: programs that are uploaded and pasted, queues, stops, restarts of the server, and bad forms."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import onnx
import psutil
import pytest
from onnx import TensorProto, helper
from serving import Serve, Served

from driftline.causes import builtin
from driftline.core.errors import DriftlineError
from driftline.serve import records
from driftline.serve.keeper import DONE, RUNNING, STOPPED, WAITING, JobKeeper
from driftline.serve.orders import AuditOrder, CheckOrder, HuntOrder
from driftline.serve.settings import ServeSettings
from driftline.store import Store
from driftline.testing import planted_plugin

LONG = 300.0  # seconds that a busy machine may take
PROGRAM = """
import torch

def program():
    return (lambda x: torch.relu(x)), (torch.ones(3),)
"""


@pytest.fixture(scope="module")
def model() -> bytes:
    """One Relu: read in a moment."""
    one, two = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [one], [two])
    return onnx.ModelProto.SerializeToString(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    )


@pytest.fixture(scope="module")
def server(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Served:
    place = tmp_path_factory.mktemp("jobs") / "store"
    Store.create(place).close()
    return serve(place, plugins=(planted_plugin(),), cores=1, upload=1 << 20)


@pytest.fixture(scope="module")
def client(server: Served) -> httpx.Client:
    return server.client()


def started(answer: httpx.Response) -> int:
    assert answer.status_code == 303, answer.text
    return int(answer.headers["location"].removeprefix("/jobs/"))


def test_an_uploaded_model_is_checked_and_streamed(client: httpx.Client, server: Served, model: bytes) -> None:
    sent = {"model": ("../../my model.onnx", model)}
    number = started(client.post("/jobs/new/check", files=sent, data={"targets": "onnx-reference"}))
    seen = []
    with client.stream("GET", f"/jobs/{number}/stream", timeout=LONG) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            seen.append(line)
    text = "\n".join(seen)
    assert ">running</span>" in text and ">done</span>" in text and "event: over" in text
    page = client.get(f"/jobs/{number}").text
    assert "Check my model.onnx on onnx-reference" in page and "1 pass." in page
    folder = records.folder_of(server.settings.store, number)
    assert sorted(path.name for path in folder.iterdir()) == ["job.json", "log.txt", "my_model.onnx", "progress.json"]
    assert folder.stat().st_mode & 0o077 == 0 and (folder / "my_model.onnx").stat().st_mode & 0o077 == 0


def test_jobs_queue_for_cores_and_outlive_the_server(
    client: httpx.Client, server: Served, model: bytes, eventually: Any
) -> None:
    def hang() -> int:
        data = {"targets": "planted-hang"}
        return started(client.post("/jobs/new/check", files={"model": ("hang.onnx", model)}, data=data))

    first, second = hang(), hang()
    # Another server on the same store: it knows what the first one started, by the process.
    other = JobKeeper(ServeSettings(store=server.settings.store, library=builtin()))
    eventually(lambda: any(row.words for row in other.job(first).progress.targets), LONG)
    assert other.job(first).state == RUNNING
    assert ">waiting</span>" in client.get(f"/jobs/{second}").text
    assert "It waits for a core" in client.get(f"/jobs/{second}").text
    refused = client.post(f"/jobs/{first}/remove")
    assert refused.status_code == 400 and "is running; stop it, and then remove it" in refused.text

    workers = psutil.Process(other.job(first).record.pid).children(recursive=True)
    assert workers
    other.stop(first)  # as a server does that was started again
    eventually(lambda: other.job(first).state == STOPPED, LONG)
    assert other.job(first).progress.code == 130
    eventually(lambda: not any(worker.is_running() for worker in workers), LONG)
    eventually(lambda: other.job(second).state == RUNNING, LONG)  # its turn has come

    pid = other.job(second).record.pid
    psutil.Process(pid).send_signal(signal.SIGKILL)  # nothing can be written down
    eventually(lambda: other.job(second).state == STOPPED, LONG)
    page = client.get(f"/jobs/{second}").text
    assert "Its process died" in page and ">Resume</button>" in page
    started(client.post(f"/jobs/{second}/resume"))
    eventually(lambda: other.job(second).state == RUNNING and other.job(second).record.pid != pid, LONG)
    psutil.Process(other.job(second).record.pid).suspend()  # it cannot hear that it is to stop
    assert client.post(f"/jobs/{second}/stop").status_code == 303
    assert ">Stop now, without tidying up</button>" in client.get(f"/jobs/{second}").text
    assert client.post(f"/jobs/{second}/stop").status_code == 303
    eventually(lambda: other.job(second).state == STOPPED, LONG)
    assert client.post(f"/jobs/{first}/remove").headers["location"] == "/jobs"
    assert client.get(f"/jobs/{first}").status_code == 404
    assert not records.folder_of(server.settings.store, first).exists()


def test_a_job_that_waits_can_be_taken_back(server: Served, tmp_path: Path) -> None:
    """Without a process: nothing is started for it."""
    place = tmp_path / "store"
    Store.create(place).close()
    keeper = JobKeeper(ServeSettings(store=place, library=builtin(), cores=1))
    keeper.advance = lambda: None  # type: ignore[method-assign]
    number = keeper.start(HuntOrder(60.0))
    assert keeper.job(number).state == WAITING
    keeper.stop(number)
    assert keeper.job(number).state == STOPPED and keeper.job(number).outcome == "It was not started."


@pytest.mark.slow
def test_a_pasted_program_reaches_no_process_but_workers(client: httpx.Client, server: Served) -> None:
    """A program that says who runs it: not the server, nor the process of the job."""
    data = {"text": "import os\n\ndef program():\n    raise RuntimeError(f'imported by {os.getpid()}')\n"}
    data |= {"targets": "onnx-reference"}
    number = started(client.post("/jobs/new/check", data=data))
    with client.stream("GET", f"/jobs/{number}/stream", timeout=LONG) as stream:
        for _ in stream.iter_lines():
            pass
    keeper = JobKeeper(ServeSettings(store=server.settings.store, library=builtin()))
    job = keeper.job(number)
    said = re.search(r"imported by (\d+)", job.progress.outcome)
    assert job.state == "failed" and said, job.progress
    assert int(said[1]) not in (job.record.pid, psutil.Process().pid)


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("hunt", {"budget": "soon"}, "Time soon: write a time with its unit"),
        ("hunt", {"budget": "48h"}, "Time: at most 24h"),
        ("hunt", {"targets": "onnxruntim"}, "Unknown backend &#39;onnxruntim&#39;. Did you mean"),
        ("hunt", {"jobs": "64"}, "jobs 64: write a whole number from 1 to 1."),
        ("hunt", {"seed": "-1"}, "seed -1: write a whole number from 0 to"),
        ("hunt", {"generators": "llm"}, "generators llm: there is no such generator here."),
        ("audit", {"compilers": "gcc"}, "its rules cannot be listed."),
        ("diagnosis", {"bug": "inductor-404"}, "There is no bug &#39;inductor-404&#39;"),
        ("check", {}, "Choose an .onnx file to upload, or paste a program."),
        ("check", {"text": PROGRAM, "function": "a b"}, "that is not the name of a Python function"),
        ("check", {"text": PROGRAM, "function": "main"}, "The program defines no function main()"),
        ("check", {"text": PROGRAM, "inputs": "/etc/passwd"}, "inputs /etc/passwd: there is no such strategy."),
        ("check", {"text": PROGRAM, "samples": "0"}, "samples 0: write a whole number from 1 to 1000."),
        ("bake", {}, "There is no work called &#39;bake&#39;."),
    ],
)
def test_a_bad_form_is_a_sentence_and_starts_nothing(
    client: httpx.Client, server: Served, kind: str, data: dict[str, str], said: str
) -> None:
    before = records.numbers(server.settings.store)
    answer = client.post(f"/jobs/new/{kind}", data=data)
    assert answer.status_code == 400
    assert said in answer.text
    assert records.numbers(server.settings.store) == before


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("model.pt2", b"x", "model.pt2: only .onnx files can be uploaded"),
        ("model.onnx", b"", "model.onnx is empty."),
        ("<b>.txt", b"x", "&lt;b&gt;.txt: only .onnx files"),
    ],
)
def test_other_files_are_refused(client: httpx.Client, name: str, body: bytes, said: str) -> None:
    answer = client.post("/jobs/new/check", files={"model": (name, body)})
    assert answer.status_code == 400 and said in answer.text


def test_a_model_and_a_program_are_too_much(client: httpx.Client) -> None:
    answer = client.post("/jobs/new/check", files={"model": ("a.onnx", b"x")}, data={"text": PROGRAM})
    assert answer.status_code == 400 and "not both" in answer.text


def test_unknown_jobs_are_pages_that_say_so(client: httpx.Client) -> None:
    assert "There is no job 4711" in client.get("/jobs/4711").text
    for path in ("/jobs/4711", "/jobs/4711/stream", "/jobs/x"):
        assert client.get(path).status_code == 404, path
    for path in ("/jobs/4711/stop", "/jobs/4711/resume", "/jobs/4711/bake"):
        assert client.post(path).status_code == 404, path


def test_a_damaged_record_is_left_out(client: httpx.Client, server: Served) -> None:
    number, folder = records.new_folder(server.settings.store)
    (folder / "job.json").write_text('{"number": "')
    assert client.get("/jobs").status_code == 200
    assert client.get(f"/jobs/{number}").status_code == 404


def test_what_a_store_of_others_says_of_jobs_is_not_believed(tmp_path: Path) -> None:
    """A file outside of the folder, a folder that is a link, and plugins: a store may come from anybody."""
    place = tmp_path / "store"
    Store.create(place).close()
    (tmp_path / "plugin.py").write_text(f"open({str(tmp_path / 'loaded')!r}, 'w')")
    number, folder = records.new_folder(place)
    outside = records.JobRecord(number, CheckOrder("../../secret.onnx", "x"), "2026-01-01T00:00:00Z")
    records.save(folder, outside)
    (place / "jobs" / "7").symlink_to(folder)
    keeper = JobKeeper(ServeSettings(store=place, library=builtin()))
    assert keeper.jobs() == []
    named = replace(outside, order=CheckOrder("a.onnx", "x"), plugins=(str(tmp_path / "plugin.py"),))
    records.save(folder, named)
    (shown,) = keeper.jobs()
    assert shown.number == number
    keeper.resume(number)
    try:
        assert records.load(folder).plugins == ()
    finally:
        keeper.close()
    assert not (tmp_path / "loaded").exists()
    (place / "jobs").rename(place / "moved")
    (place / "jobs").symlink_to(place / "moved")
    with pytest.raises(DriftlineError, match="symbolic link"):
        keeper.start(AuditOrder(60.0))


def test_the_states_that_pages_know(server: Served) -> None:
    """A program that ends with findings is done, as one without is."""
    keeper = JobKeeper(ServeSettings(store=server.settings.store, library=builtin()))
    number, folder = records.new_folder(server.settings.store)
    records.save(folder, records.JobRecord(number, AuditOrder(60.0), "2026-01-01T00:00:00Z", pid=1, born=1.0))
    for code, state in ((0, DONE), (1, DONE), (5, DONE), (2, "failed"), (3, "failed"), (4, "failed"), (130, STOPPED)):
        records.save_progress(folder, records.JobProgress(code=code))
        assert keeper.job(number).state == state
