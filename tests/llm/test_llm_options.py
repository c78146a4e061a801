"""What is wrong with the model's settings is one sentence and exit code 2, before any program is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftline.cli import run
from driftline.store import Store
from driftline.store.hunts import HuntLog
from driftline.testing.chat_server import MODEL, ChatServer, failure, reply

HUNT = ["hunt", "--generators", "llm", "--targets", "inductor", "--programs", "1", "--store", "s"]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Sets variables, and puts the test into a folder of its own."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "DRIFTLINE_LLM_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def tell(url: str = "", model: str = "", key: str = "") -> None:
        values = {"OPENAI_BASE_URL": url, "DRIFTLINE_LLM_MODEL": model, "OPENAI_API_KEY": key}
        for name, value in values.items():
            if value:
                monkeypatch.setenv(name, value)

    return tell


def refused(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert run([*HUNT, *more]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said and "Hunting on" not in said
    if Path("s/store.db").is_file():
        with Store.open(Path("s")) as store:
            assert not HuntLog(store).hunts()
    return said


def test_no_address(told, capsys: pytest.CaptureFixture[str]) -> None:
    told()
    assert "OPENAI_BASE_URL" in refused(capsys)


def test_no_model(told, capsys: pytest.CaptureFixture[str]) -> None:
    told(url="http://127.0.0.1:9/v1")
    assert "DRIFTLINE_LLM_MODEL" in refused(capsys)


def test_a_refused_key(told, capsys: pytest.CaptureFixture[str]) -> None:
    with ChatServer([reply("x")], key="right") as server:
        told(server.url, MODEL, "wrong-secret-key")
        said = refused(capsys)
    assert "OPENAI_API_KEY" in said and "wrong-secret-key" not in said


def test_an_unknown_model(told, capsys: pytest.CaptureFixture[str]) -> None:
    with ChatServer([failure(404, "no such model")]) as server:
        told(server.url, "scripted-2")
        said = refused(capsys)
    assert "knows no model 'scripted-2'" in said and "scripted-1" in said


def test_a_cost_without_prices(told, capsys: pytest.CaptureFixture[str]) -> None:
    told("http://127.0.0.1:9/v1", MODEL)
    assert "price_in" in refused(capsys, "--llm-cost", "3")


def test_a_replay_of_nothing(told, capsys: pytest.CaptureFixture[str]) -> None:
    told()
    assert "holds no hunt with a language model" in refused(capsys, "--llm-replay")


def test_options_of_a_model_that_is_not_asked(told, capsys: pytest.CaptureFixture[str]) -> None:
    told()
    assert run(["hunt", "--llm-tokens", "5", "--programs", "1", "--store", "s"]) == 2
    assert "--generators" in capsys.readouterr().err


def test_a_key_in_the_file(told, capsys: pytest.CaptureFixture[str]) -> None:
    told()
    Path("driftline.toml").write_text('[llm]\napi_key = "sk-in-a-file"\n')
    said = refused(capsys)
    assert "does not belong into a file" in said and "sk-in-a-file" not in said
