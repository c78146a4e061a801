"""The client takes an answer for one only when it is whole, waits as it is told, and never shows the key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from driftline.core import notices
from driftline.core.errors import DriftlineError
from driftline.llm.chat import CUT_OFF, EMPTY, FILTERED, NO_ANSWER, NOT_TEXT, REFUSED, ChatRequest, Message
from driftline.llm.client import RETRIES, ChatClient, Closed, NoAnswer
from driftline.llm.model import RecordedModel
from driftline.llm.settings import LlmSettings
from driftline.store import Store
from driftline.testing.chat_server import (
    DROPPED,
    HALF,
    HTML,
    MODEL,
    NO_CHOICE,
    SILENT,
    ChatReply,
    ChatServer,
    failure,
    reply,
)

KEY = "sk-secret-1234567890"
QUESTION = ChatRequest(MODEL, (Message("user", "Write a program."),))


@contextmanager
def client_of(server: ChatServer, **settings) -> Iterator[tuple[ChatClient, list[float]]]:
    """A client that waits for nothing, and the pauses that it would have made."""
    pauses: list[float] = []
    client = ChatClient(LlmSettings(server.url, MODEL, **settings), wait=lambda pause: pauses.append(pause) or False)
    try:
        yield client, pauses
    finally:
        client.close()


def test_an_answer_has_its_text_and_its_tokens() -> None:
    with ChatServer([reply("import torch")]) as server, client_of(server) as (client, _):
        answer = client.complete(QUESTION)
    assert (answer.text, answer.prompt_tokens, answer.answer_tokens) == ("import torch", 100, 50)
    assert not answer.problem and not answer.estimated
    assert server.requests[0]["messages"] == [{"role": "user", "content": "Write a program."}]
    assert server.requests[0]["max_tokens"] == 2048


@pytest.mark.parametrize(
    "fault",
    [failure(429), failure(500), failure(503), DROPPED, HALF, HTML, NO_CHOICE, reply("cut stream", finish=None)],
    ids=["429", "500", "503", "dropped", "half", "html", "no choice", "no finish reason"],
)
def test_what_passes_is_tried_again(fault: ChatReply) -> None:
    with ChatServer([fault, fault, reply("done")]) as server, client_of(server) as (client, pauses):
        assert client.complete(QUESTION).text == "done"
    assert len(server.requests) == 3
    assert pauses == [1.0, 2.0]


def test_a_list_of_names_is_asked_for_in_its_form_where_the_server_takes_one() -> None:
    question = replace(QUESTION, choices=("add", "relu"))
    assert question.key != QUESTION.key
    with ChatServer([reply('{"names": ["relu"]}')]) as server, client_of(server) as (client, _):
        assert client.complete(question).text == '{"names": ["relu"]}'
        client.complete(QUESTION)
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["names"]["items"]["enum"] == ["add", "relu"]
    assert "response_format" not in server.requests[1]


@pytest.mark.parametrize("refusal", [[failure(400)], [failure(422)], [failure(501)], [failure(500)] * 2])
def test_a_server_that_refuses_the_form_is_asked_without_it_from_then_on(refusal: list[ChatReply]) -> None:
    question = replace(QUESTION, choices=("add", "relu"))
    with ChatServer([*refusal, reply("add"), reply("relu")]) as server, client_of(server) as (client, _):
        assert [client.complete(question).text for _ in range(2)] == ["add", "relu"]
    assert ["response_format" in one for one in server.requests] == [True] * len(refusal) + [False, False]


def test_a_server_that_fails_once_keeps_the_form() -> None:
    question = replace(QUESTION, choices=("add", "relu"))
    with ChatServer([failure(500), reply("add"), reply("relu")]) as server, client_of(server) as (client, _):
        assert [client.complete(question).text for _ in range(2)] == ["add", "relu"]
    assert all("response_format" in one for one in server.requests)


def test_a_server_that_fails_in_any_form_is_asked_as_often_as_ever() -> None:
    question = replace(QUESTION, choices=("add", "relu"))
    down = pytest.raises(NoAnswer, match="status 500, 6 times")
    with ChatServer([failure(500)]) as server, client_of(server) as (client, _), down:
        client.complete(question)
    assert ["response_format" in one for one in server.requests] == [True] * 2 + [False] * (RETRIES + 1)


def test_a_question_that_is_refused_in_any_form_says_nothing_about_the_form() -> None:
    question = replace(QUESTION, choices=("add", "relu"))
    with ChatServer([failure(400), failure(400), reply("add")]) as server, client_of(server) as (client, _):
        assert [client.complete(question).problem for _ in range(2)] == [REFUSED, ""]
    assert ["response_format" in one for one in server.requests] == [True, False, True]


def test_a_server_that_stays_down_is_asked_six_times() -> None:
    down = pytest.raises(NoAnswer, match="status 503, 6 times")
    with ChatServer([failure(503)]) as server, client_of(server) as (client, pauses), down:
        client.complete(QUESTION)
    assert len(server.requests) == RETRIES + 1
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_that_it_is_asked_again_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(notices, "_listeners", [said.append])
    with ChatServer([failure(503), reply("x"), failure(503), reply("y")]) as server, client_of(server) as (client, _):
        assert [client.complete(QUESTION).text, client.complete(QUESTION).text] == ["x", "y"]
        assert said == [f"{server.url} gives no answer (status 503); trying up to {RETRIES} times more"]


def test_a_server_that_says_nothing_is_not_waited_for_without_end() -> None:
    with ChatServer([SILENT, reply("late")]) as server, client_of(server, timeout=0.5) as (client, _):
        assert client.complete(QUESTION).text == "late"


def test_retry_after_is_obeyed() -> None:
    told = [failure(429, retry_after="7"), failure(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), reply("x")]
    with ChatServer(told) as server, client_of(server) as (client, pauses):
        client.complete(QUESTION)
    assert pauses == [7.0, 0.0]


def test_a_client_that_is_closed_waits_no_longer() -> None:
    clients: list[ChatClient] = []

    def later(body):
        clients[0]._closed.set()
        return failure(429, retry_after="3600")

    with ChatServer(later) as server:
        clients.append(ChatClient(LlmSettings(server.url, MODEL)))
        with pytest.raises(Closed):
            clients[0].complete(QUESTION)
        clients[0].close()
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (reply(""), EMPTY),
        (reply(" \n"), EMPTY),
        (reply("import tor", finish="length"), CUT_OFF),
        (reply("", finish="content_filter"), FILTERED),
        (reply(None), NOT_TEXT),
        (reply(42), NOT_TEXT),
        (failure(400, "this model's maximum context length is 4096 tokens"), REFUSED),
    ],
)
def test_answers_without_use_have_a_name(answer: ChatReply, problem: str) -> None:
    with ChatServer([answer]) as server, client_of(server) as (client, _):
        assert client.complete(QUESTION).problem == problem
    assert len(server.requests) == 1


def test_parts_of_text_are_one_text() -> None:
    parts = [{"type": "text", "text": "import "}, {"type": "text", "text": "torch"}]
    with ChatServer([reply(parts)]) as server, client_of(server) as (client, _):
        assert client.complete(QUESTION).text == "import torch"


def test_tokens_are_estimated_where_the_server_does_not_count() -> None:
    with ChatServer([reply("x" * 400, usage=None)]) as server, client_of(server) as (client, _):
        answer = client.complete(QUESTION)
    assert answer.estimated
    assert 100 <= answer.answer_tokens <= 110 and answer.prompt_tokens > 0


def test_a_refused_key_is_the_users_business_and_is_not_repeated() -> None:
    with ChatServer([reply("x")], key="another") as server, client_of(server, key=KEY) as (client, _):
        for ask in (lambda: client.complete(QUESTION), lambda: client.require_model(MODEL)):
            with pytest.raises(DriftlineError, match="OPENAI_API_KEY") as error:
                ask()
            assert KEY not in str(error.value) and "[key]" in str(error.value)


def test_an_unknown_model_is_named_with_those_that_are_near() -> None:
    with ChatServer([reply("x")]) as server, client_of(server) as (client, _):
        client.require_model(MODEL)
        with pytest.raises(DriftlineError, match=r"knows no model 'scripted'.*DRIFTLINE_LLM_MODEL.*scripted-1"):
            client.require_model("scripted")
    assert not server.requests


def test_a_server_without_a_list_of_models_is_asked_for_one_token() -> None:
    with ChatServer([reply("O")], models=()) as server, client_of(server) as (client, _):
        client.require_model("anything")
    assert [body["max_tokens"] for body in server.requests] == [1]


def test_an_address_that_speaks_something_else_is_named() -> None:
    with ChatServer([reply("x")]) as server:
        client = ChatClient(LlmSettings(server.url + "/other", MODEL), wait=lambda _: False)
        with pytest.raises(DriftlineError, match="OPENAI_BASE_URL"):
            client.complete(QUESTION)
        client.close()


def test_a_key_that_a_server_repeats_is_kept_nowhere(store_folder) -> None:
    with (
        ChatServer([reply(f"your key is {KEY}")], key=KEY) as server,
        client_of(server, key=KEY) as (client, _),
        Store.create(store_folder) as store,
    ):
        answer = RecordedModel(store, client).ask(QUESTION, "a test")
    assert answer.text == "your key is [key]"
    assert KEY not in repr(LlmSettings(server.url, MODEL, key=KEY))
    assert all(KEY.encode() not in path.read_bytes() for path in store_folder.rglob("*") if path.is_file())


def test_an_answer_is_asked_for_once(store_folder) -> None:
    with (
        ChatServer([reply("first"), reply("second")]) as server,
        client_of(server) as (client, _),
        Store.create(store_folder) as store,
    ):
        model = RecordedModel(store, client)
        assert model.ask(QUESTION, "a test").text == "first"
        assert model.ask(QUESTION, "a test").text == "first"
        other = ChatRequest(MODEL, QUESTION.messages, sample=1)
        assert model.ask(other, "a test").text == "second"
        replay = RecordedModel(store, None)
        assert replay.ask(other, "a test").text == "second"
        missing = ChatRequest(MODEL, QUESTION.messages, sample=2)
        with pytest.raises(DriftlineError, match=missing.key[:12]):
            replay.ask(missing, "a test")
    assert len(server.requests) == 2


def test_a_failure_is_asked_again_later_and_repeated_in_a_replay(store_folder) -> None:
    with (
        ChatServer([failure(500)] * 6 + [reply("up again")]) as server,
        client_of(server) as (client, _),
        Store.create(store_folder) as store,
    ):
        model = RecordedModel(store, client)
        assert model.ask(QUESTION, "a test").problem == NO_ANSWER
        assert RecordedModel(store, None).ask(QUESTION, "a test").problem == NO_ANSWER
        assert model.ask(QUESTION, "a test").text == "up again"


def test_the_official_client_understands_the_scripted_server() -> None:
    openai = pytest.importorskip("openai")
    with ChatServer([failure(429, retry_after="0"), reply("hello")], key=KEY) as server:
        client = openai.OpenAI(base_url=server.url, api_key=KEY, max_retries=1)
        made = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}])
        assert (made.choices[0].message.content, made.choices[0].finish_reason) == ("hello", "stop")
        assert made.usage.total_tokens == 150
        assert [model.id for model in client.models.list()] == [MODEL]
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "hi"}])
        refused = openai.OpenAI(base_url=server.url, api_key="wrong", max_retries=0)
        with pytest.raises(openai.AuthenticationError):
            refused.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}])
