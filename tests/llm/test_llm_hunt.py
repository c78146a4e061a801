"""Hunts with a language model: programs in a fixed order, nothing paid twice, no bug that is none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import hunting
import pytest
from hunting import Book, hunt, hunted
from scripted_author import WRITTEN, author

from driftline.backends import BACKENDS
from driftline.campaign.authoring.author import Author
from driftline.checking.batch import Screening
from driftline.checking.batch_requests import ProgramRequest
from driftline.core.errors import DriftlineError
from driftline.core.rule import Rule
from driftline.core.target import Target
from driftline.events import Event, GeneratorStopped
from driftline.execute import sandbox
from driftline.execute.pool import Pool, PoolInterrupted
from driftline.generate.authored import names
from driftline.generate.authored.names import COPY
from driftline.llm import chat
from driftline.llm.allowance import Allowance
from driftline.llm.model import RecordedModel
from driftline.llm.rules import ShownRule
from driftline.llm.settings import LlmSettings
from driftline.patterns.pass_rules import pass_rules
from driftline.report.gather import gather_store
from driftline.report.hunts import hunt_json, show_hunt
from driftline.report.markdown import render
from driftline.store import Store
from driftline.store.hunts import HuntLog
from driftline.store.tries import RAN
from driftline.testing.chat_server import MODEL, ChatReply, ChatServer, failure, reply
from driftline.workbench import Workbench

KEY = "sk-that-nobody-may-see"


def tries_of(store: Path) -> list[Any]:
    return [one for _, body in hunted(store)["turns"] for one in body.tries]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> tuple[Path, int]:
    store = tmp_path_factory.mktemp("llm") / "store"
    with ChatServer(author, key=KEY) as server:
        hunt(store, server.url, key=KEY, pool=pool)
    assert KEY not in json.dumps(server.requests)  # it is in a header, and in no prompt
    return store, len(server.requests)


def test_a_turn_that_ends_after_the_time_is_over_asks_for_no_next_one(tmp_path: Path) -> None:
    settings = LlmSettings("http://127.0.0.1:9", MODEL)
    with Store.create(tmp_path / "store") as store:
        late = Author(store, RecordedModel(store, None), settings, Book(), Allowance(None), seed=1)
        assert late.open_lanes([Target("telling")])
        late.close()
        late.ask_ahead("telling", [ProgramRequest("llm", "r-relu", 0, ("random",), "1")])


def test_a_turn_that_waits_for_a_question_not_asked_before_the_end_is_interrupted(tmp_path: Path) -> None:
    """So many questions are planned at once; the close of the hunt drops those that wait for their turn."""
    held = threading.Event()

    class Slow(Book):
        def shown(self, rule: Rule) -> ShownRule:
            held.wait()
            return super().shown(rule)

    asked = [ProgramRequest("llm", "r-relu", 0, ("random",), "1")]
    settings = LlmSettings("http://127.0.0.1:9", MODEL)
    with Store.create(tmp_path / "store") as store, Pool() as pool, Screening(pool, "torch") as screening:
        late = Author(store, RecordedModel(store, None), settings, Slow(), Allowance(None), seed=1)
        late.open_lanes([Target("telling")])
        for _ in range(9):
            late.ask_ahead("telling", asked)
        late.close()
        try:
            with pytest.raises(PoolInterrupted):
                late.write("telling", Target("telling"), asked, screening)
        finally:
            held.set()


def test_programs_are_counted_by_what_became_of_them(undisturbed: tuple[Path, int]) -> None:
    tries = tries_of(undisturbed[0])
    programs = [one for one in tries if one.mode != "describe"]
    assert len(programs) == 30
    assert {one.mode for one in programs} == {"change", "write", "sketch"}
    assert {one.rule for one in programs} == {"r-relu", "r-permute"}
    outcomes = Counter(one.outcome for one in programs)
    assert outcomes[RAN] >= 15
    known = {RAN, COPY, *chat.PROBLEMS, *(value for name, value in vars(names).items() if name.isupper())}
    assert set(outcomes) <= known and len(outcomes) > 1
    assert any(one.answers == 2 and one.outcome == RAN for one in programs)  # a repair
    fired = [one for one in programs if one.fired]
    assert fired and all(one.rule in one.rules and one.text for one in fired)
    assert not any(one.fired for one in programs if one.outcome != RAN)
    assert hunted(undisturbed[0])["bugs"] == {}


def test_programs_that_fired_become_examples(undisturbed: tuple[Path, int]) -> None:
    """No program of r-permute is known at first: the first that fires it is shown from then on."""
    programs = [one for one in tries_of(undisturbed[0]) if one.rule == "r-permute" and one.mode != "describe"]
    first = next(at for at, one in enumerate(programs) if one.fired)
    assert not any(one.examples for one in programs[: first + 1])
    assert any(one.examples for one in programs[first + 1 :])


def test_a_replay_makes_no_connection_and_gives_the_same(undisturbed: tuple[Path, int], pool: Pool) -> None:
    store, _ = undisturbed
    hunt(store, "http://127.0.0.1:9/v1", replay=True, pool=pool)
    assert hunted(store, -1) == hunted(store, 0)


def test_another_server_with_the_same_answers_gives_the_same(
    undisturbed: tuple[Path, int], tmp_path: Path, pool: Pool
) -> None:
    with ChatServer(author) as server:
        hunt(tmp_path / "s", server.url, pool=pool)
    assert hunted(tmp_path / "s") == hunted(undisturbed[0], 0)


def test_a_replay_without_an_answer_names_the_request(
    undisturbed: tuple[Path, int], tmp_path: Path, pool: Pool
) -> None:
    store, _ = undisturbed
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(store), str(copy)], check=True)
    with Store.create(copy) as opened, opened.transaction() as database:
        gone = database.execute("SELECT key FROM model_answers ORDER BY rowid LIMIT 1 OFFSET 8").fetchone()[0]
        database.execute("DELETE FROM model_answers WHERE key = ?", (gone,))
        database.execute("DELETE FROM requirements")
    result = hunt(copy, "http://127.0.0.1:9/v1", replay=True, pool=pool)
    assert any(gone[:12] in step.error and step.exit_code == DriftlineError.exit_code for step in result.failed_steps)


@pytest.mark.parametrize("kills", [(7,), pytest.param((7, 20), marks=pytest.mark.slow)])
def test_killed_again_and_again_it_pays_for_no_answer_twice(
    kills: tuple[int, ...], undisturbed: tuple[Path, int], tmp_path: Path
) -> None:
    store = tmp_path / "s"
    process: list[subprocess.Popen[str]] = []
    answered: list[dict[str, Any]] = []

    def deadly(body: dict[str, Any]) -> ChatReply:
        answered.append(body)
        if len(answered) in kills:
            os.kill(process[-1].pid, signal.SIGKILL)
        return author(body)

    with ChatServer(deadly) as server:
        for _ in range(6):
            begun = (store / "store.db").is_file() and bool(_unfinished(store))
            command = [sys.executable, "-m", "hunting", str(store), server.url, *(["--resume"] * begun)]
            path = f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"
            told = {"env": {**os.environ, "PYTHONPATH": path}, "text": True}
            process.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **told))
            said, errors = process[-1].communicate(timeout=200)
            if process[-1].returncode == 0:
                break
            assert process[-1].returncode == -signal.SIGKILL, errors
    assert json.loads(said)["programs"] == {"telling": 30}
    assert json.loads(said)["imported"] == []  # the main process runs nothing, so it needs no framework
    assert len(process) == len(kills) + 1
    assert hunted(store) == hunted(undisturbed[0], 0)
    asked = Counter(json.dumps(body["messages"]) for body in answered)
    # Questions that are alike word for word have answers of their own; those in flight when it died are asked again.
    assert len(answered) <= undisturbed[1] + 2 * len(kills), asked.most_common(3)


def _unfinished(store: Path) -> list[Any]:
    with Store.open(store) as opened:
        return HuntLog(opened).unfinished()


def test_the_key_is_nowhere(undisturbed: tuple[Path, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, _ = undisturbed
    with Store.create(store) as opened:
        view = gather_store(opened)
        (tmp_path / "report.md").write_text(render(view))
    places = [path for folder in (store, tmp_path) for path in folder.rglob("*") if path.is_file()]
    assert places and all(KEY.encode() not in path.read_bytes() for path in places)
    assert MODEL in (tmp_path / "report.md").read_text()


def test_a_spent_allowance_is_said_once_and_overdrawn_little(tmp_path: Path, pool: Pool) -> None:
    said: list[Event] = []
    with ChatServer(author) as server:
        result = hunt(tmp_path / "s", server.url, tokens=3000, listener=said.append, pool=pool)
    stops = [event for event in said if isinstance(event, GeneratorStopped)]
    assert len(stops) == 1 and "3,000 tokens is spent" in stops[0].reason
    assert sum(one.tokens for one in tries_of(tmp_path / "s")) < 3000 + 2 * 1000
    assert result.no_more and result.stopped  # it was alone


def test_other_generators_go_on_when_the_allowance_is_spent(tmp_path: Path, pool: Pool) -> None:
    with ChatServer(author) as server:
        result = hunt(tmp_path / "s", server.url, tokens=1000, generators=("llm", "graph"), pool=pool)
    assert result.programs == {"telling": 30} and result.no_more and not result.stopped


def test_twenty_failures_in_a_row_stop_it(tmp_path: Path, pool: Pool) -> None:
    with ChatServer([failure(503)]) as server:
        result = hunt(tmp_path / "s", server.url, programs=60, pool=pool)
    assert "20 requests in a row had no answer" in next(iter(result.no_more.values()))
    assert not result.bugs and not result.internal_errors
    assert len(tries_of(tmp_path / "s")) < 60


def test_other_generators_go_on_after_twenty_failures(tmp_path: Path, pool: Pool) -> None:
    said: list[Event] = []
    with ChatServer([failure(503)]) as server:
        result = hunt(
            tmp_path / "s", server.url, programs=70, generators=("llm", "graph"), listener=said.append, pool=pool
        )
    stops = [event.reason for event in said if isinstance(event, GeneratorStopped)]
    assert len(stops) == 1 and "20 requests in a row had no answer" in stops[0]
    assert result.programs == {"telling": 70} and result.no_more and not result.stopped


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("numpy.lib.stride_tricks.as_strided(numpy.ones(1), (1 << 40,), (8,)).sum()", names.KILLED),
        ("return None", names.NO_TENSOR),
    ],
)
def test_programs_that_are_none_are_counted_and_are_nobodys_fault(
    line: str, name: str, tmp_path: Path, pool: Pool
) -> None:
    """One that ends its process, and one that returns no tensor; the same again is a copy."""
    text = WRITTEN.format(number=1, size=4).replace("import torch", "import torch, numpy")
    with ChatServer([reply(text.replace("    return torch.relu", f"    {line}\n    return torch.relu"))]) as server:
        result = hunt(tmp_path / "s", server.url, programs=6, pool=pool)
    outcomes = Counter(one.outcome for one in tries_of(tmp_path / "s") if one.mode in ("change", "write"))
    assert outcomes[name] >= 1 and set(outcomes) <= {name, COPY}, outcomes
    assert not result.bugs and not result.internal_errors


def test_a_report_says_that_tokens_are_estimated(tmp_path: Path, pool: Pool) -> None:
    text = "The compiler computes this wrongly, it is a sure bug:\n" + WRITTEN.format(number=1, size=4)
    with ChatServer([reply(text, usage=None)]) as server:
        result = hunt(tmp_path / "s", server.url, programs=2, pool=pool)
    assert RAN in {one.outcome for one in tries_of(tmp_path / "s")} and not result.bugs  # its word is no evidence
    with Store.create(tmp_path / "s") as opened:
        assert all(row["estimated"] and row["tokens"] for row in hunt_json(result, opened)["models"])
        assert "(estimated)" in render(gather_store(opened))


def test_a_wrong_result_of_a_models_program_is_a_bug_with_its_mode(
    tmp_path: Path, pool: Pool, capsys: pytest.CaptureFixture[str]
) -> None:
    text = WRITTEN.replace("torch.relu(", "torch.tan(").format(number=1, size=4)
    with ChatServer([reply(text)]) as server:
        result = hunt(tmp_path / "s", server.url, programs=10, pool=pool)
    assert {bug.fingerprint.kind for bug in result.bugs.values()} == {"wrong-value"}
    again = [one for one in tries_of(tmp_path / "s") if one.copy or one.outcome == COPY]  # it says the same each time
    assert any(one.copy and one.outcome == RAN for one in again) and any(one.outcome == COPY for one in again)
    with Store.create(tmp_path / "s") as opened:
        told = hunt_json(result, opened)
        show_hunt(result, opened)
    assert sum(row["bugs"] for row in told["models"]) >= 1
    assert "per 1,000" in capsys.readouterr().out


def test_a_copy_of_an_example_that_does_not_run_is_not_given_back(
    tmp_path: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = hunting.FIRST.replace("torch.relu(", "torch.no_such_function(")
    monkeypatch.setattr(hunting, "FIRST", broken)
    with ChatServer([reply(f"```python\n{broken}```")]) as server:
        hunt(tmp_path / "s", server.url, programs=6, pool=pool)
    assert {one.answers for one in tries_of(tmp_path / "s") if one.copy} == {1}


def test_a_kernel_without_landlock_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.landlock, "abi", lambda: 0)
    with Workbench(tmp_path / "s") as bench, pytest.raises(DriftlineError, match="DRIFTLINE_SANDBOX=off"):
        bench.hunt(generators=["llm"], targets=["inductor"], programs=1)


@pytest.mark.slow
def test_a_hunt_on_inductor_fires_the_rules_that_it_aims_at(tmp_path: Path) -> None:
    with ChatServer(author, key=KEY) as server:
        told = {"OPENAI_BASE_URL": server.url, "DRIFTLINE_LLM_MODEL": MODEL, "OPENAI_API_KEY": KEY}
        command = [sys.executable, "-m", "driftline", "hunt", "--generators", "llm", "--targets", "inductor"]
        command += ["--programs", "20", "--seed", "1", "--store", str(tmp_path / "s"), "--json"]
        done = subprocess.run(command, env={**os.environ, **told}, capture_output=True, text=True, timeout=550)
        assert done.returncode in (0, 1), done.stderr
        rows = {row["mode"]: row for row in json.loads(done.stdout)["models"]}
        assert rows["change"]["fired"] >= 3
    replayed = subprocess.run([*command, "--llm-replay"], capture_output=True, text=True, timeout=550)
    assert replayed.returncode == done.returncode, replayed.stderr
    assert hunted(tmp_path / "s", 0) == hunted(tmp_path / "s", 1)
    assert all(KEY.encode() not in path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("target", ["xla", "tensorflow-xla", "tflite"])
def test_a_hunt_aims_at_passes_and_fusions(target: str, tmp_path: Path) -> None:
    """The scripted model leaves the pattern in an example that it is shown: such programs fire what they aim at."""
    if not BACKENDS.get(target).installed().available:
        pytest.skip(f"{target} is not installed")
    with ChatServer(partial(author, mistakes=False)) as server:  # of twelve, few are changes: none may be lost
        told = {"OPENAI_BASE_URL": server.url, "DRIFTLINE_LLM_MODEL": MODEL}
        command = [sys.executable, "-m", "driftline", "hunt", "--generators", "llm", "--targets", target]
        command += ["--programs", "12", "--seed", "1", "--store", str(tmp_path / "s"), "--json"]
        done = subprocess.run(command, env={**os.environ, **told}, capture_output=True, text=True, timeout=1500)
    assert done.returncode in (0, 1), done.stderr
    rows = {row["mode"]: row for row in json.loads(done.stdout)["models"]}
    assert sum(row["fired"] for row in rows.values()) >= 1, rows
    assert rows["sketch"]["ran"] >= 1 and rows["describe"]["answers"] >= 1, rows
    known = {rule.id for rule in pass_rules(target)}
    assert all(one.rule in known for one in tries_of(tmp_path / "s"))
