"""A client of `/v1/chat/completions`, for any server with this protocol.

Temporary failures (429, 5xx, a dropped or incomplete answer, a time-out) are retried, with growing pauses or after the
time that the server asks for. Mistakes that the user has to fix (the key, the name of the model, the address) raise a
`DriftlineError`. An answer counts only if the server says that it is complete.
"""

from __future__ import annotations

import email.utils
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.notices import notice
from driftline.core.secrets import scrubbed
from driftline.core.text import did_you_mean, first_line, parse_json
from driftline.llm.chat import (
    CUT_OFF,
    EMPTY,
    FILTERED,
    NOT_TEXT,
    REFUSED,
    ChatAnswer,
    ChatRequest,
    Message,
    Sampling,
    estimated_tokens,
)
from driftline.llm.settings import BASE_URL, MODEL, LlmSettings

RETRIES = 5
FIRST_PAUSE = 1.0  # seconds; each further one is twice as long
LONGEST_PAUSE = 60.0
LARGEST = 8 << 20  # bytes of one answer
_AGAIN = (408, 409, 425, 429)  # statuses that go away, besides 5xx
_WRONG_KEY = (401, 403)
_REFUSED_FORM = (400, 404, 422, 500, 501)  # statuses of servers that do not support `response_format`
_FAILS_ON_FORM = {500: 2, 501: 1}  # how often, before it is believed: a server may have a 500 for other reasons
_NEVER: Mapping[int, int] = {}


class NoAnswer(Exception):
    """Raised when the server gave no answer after all retries. The hunt continues: the next request may succeed."""


class Closed(NoAnswer):
    """Raised when the client is closed during a request or a pause."""


class _Passing(Exception):
    """Raised for an error worth a retry. `pause`: seconds that the server asked to wait; `status`: its HTTP status."""

    def __init__(self, why: str, pause: float | None = None, status: int = 0) -> None:
        super().__init__(why)
        self.pause = pause
        self.status = status


class ChatClient:
    """Sends requests to one server. Thread-safe; `close` ends the pauses of all threads."""

    def __init__(self, settings: LlmSettings, *, wait: Callable[[float], bool] | None = None) -> None:
        """`wait` is called with the seconds of a pause and returns True to give up."""
        try:
            import httpx
        except ModuleNotFoundError as error:
            raise DriftlineError(
                "Asking a language model needs the package httpx: pip install 'driftline[llm]'."
            ) from error
        self._settings = settings
        self._closed = threading.Event()
        self._told = threading.Event()  # that requests are tried again
        self._refuses_forms = threading.Event()  # the server does not support `response_format`
        self._wait = wait or self._closed.wait
        headers = {"Authorization": f"Bearer {settings.key}"} if settings.key else {}
        limits = httpx.Limits(max_connections=settings.connections, max_keepalive_connections=settings.connections)
        self._http = httpx.Client(headers=headers, timeout=httpx.Timeout(settings.timeout, connect=30.0), limits=limits)
        self._transport_error = httpx.HTTPError

    def close(self) -> None:
        self._closed.set()
        self._http.close()

    # -- asking ------------------------------------------------------------------------------------------------------

    def complete(self, request: ChatRequest) -> ChatAnswer:
        """Return the model's answer. Raises `NoAnswer`, or `DriftlineError` for errors that the user has to fix."""
        body = {
            "model": request.model,
            "messages": [{"role": one.role, "content": self._clean(one.content)} for one in request.messages],
            **asdict(request.parameters),
        }
        held = bool(request.choices) and not self._refuses_forms.is_set()
        form = {"response_format": _list_of(request.choices)} if held else {}
        status, answer = self._patiently("POST", "/chat/completions", {**body, **form}, _FAILS_ON_FORM if held else {})
        if held and status in _REFUSED_FORM:  # not all servers support `response_format`
            status, answer = self._patiently("POST", "/chat/completions", body)
            if status < 400:  # else it was something else that it refused
                self._refuses_forms.set()
        if status >= 400:
            said = self._said(answer)
            if _names_no_model(status, said, request.model):
                raise DriftlineError(self._unknown_model(request.model, said))
            return ChatAnswer("", problem=REFUSED, finish_reason=said, estimated=True)
        return self._read(request, answer)

    def require_model(self, *names: str) -> None:
        """Check that the server answers, accepts the key and knows these models; raises `DriftlineError` otherwise.
        Costs no tokens if the server lists its models."""
        try:
            self._require_model(names)
        except NoAnswer as reason:
            raise DriftlineError(f"{self._settings.shown_url} gives no answer ({reason}): see {BASE_URL}.") from reason

    def _require_model(self, names: Sequence[str]) -> None:
        status, answer = self._patiently("GET", "/models", None)
        listed = _ids(answer) if status < 400 else []
        for name in dict.fromkeys(names):
            if any(known == name or known.partition(":")[0] == name for known in listed):
                continue
            ask = ChatRequest(name, (Message("user", "Say OK."),), Sampling(max_tokens=1))
            try:
                self.complete(ask)
            except DriftlineError as error:
                hint = did_you_mean(name, listed)
                raise DriftlineError(f"{error}{hint}") if hint else error from error

    def _patiently(
        self, method: str, path: str, body: Mapping[str, Any] | None, believed: Mapping[int, int] = _NEVER
    ) -> tuple[int, Any]:
        """Send a request, and retry it after temporary errors. `believed` maps a status to the number of times after
        which it is taken as the answer."""
        why = ""
        met: Counter[int] = Counter()
        for attempt in range(RETRIES + 1):
            try:
                return self._once(method, path, body)
            except _Passing as passing:
                met[passing.status] += 1
                if met[passing.status] >= believed.get(passing.status, math.inf):
                    return passing.status, None
                why = str(passing)
                pause = min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE) if passing.pause is None else passing.pause
            if attempt == 0 and not self._told.is_set():  # once, and not for every thread
                self._told.set()
                notice(f"{self._settings.shown_url} gives no answer ({why}); trying up to {RETRIES} times more")
            if attempt < RETRIES and self._wait(pause):
                raise Closed("closed while the server was being waited for")
        raise NoAnswer(f"{why}, {RETRIES + 1} times")

    def _once(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, Any]:
        if self._closed.is_set():
            raise Closed("closed before it was asked")
        began = time.monotonic()
        data = bytearray()
        try:
            with self._http.stream(method, self._settings.base_url + path, json=body) as response:
                for piece in response.iter_bytes():
                    data += piece
                    if len(data) > LARGEST:
                        raise _Passing(f"the answer is longer than {LARGEST >> 20} MiB")
                    if time.monotonic() - began > self._settings.timeout:
                        raise _Passing(f"no whole answer within {self._settings.timeout:g} s")
                status, headers = response.status_code, response.headers
        except self._transport_error as error:
            if self._closed.is_set():
                raise Closed("closed in the middle of an answer") from None
            raise _Passing(self._clean(f"{type(error).__name__}: {first_line(str(error), 150)}")) from None
        if status in _WRONG_KEY:
            raise DriftlineError(
                f"{self._settings.shown_url} refuses the key (status {status}): set {self._settings.key_variable}"
                f" in the environment to one that it takes. It says: {self._said(_parsed(bytes(data)))}"
            )
        if status in _AGAIN or status >= 500:
            raise _Passing(f"status {status}", _retry_after(headers.get("retry-after", "")), status)
        return self._understood(method, path, status, bytes(data))

    def _understood(self, method: str, path: str, status: int, data: bytes) -> tuple[int, Any]:
        answer = _parsed(data)
        if method == "GET":  # a list of models is a courtesy: many servers have none
            return status, answer
        if status == 404 and not isinstance(answer, dict):
            raise DriftlineError(
                f"There is no {path} at {self._settings.shown_url} (status 404): {BASE_URL} must be an address below"
                " which a server speaks chat completions; most end in /v1."
            )
        if status < 400 and (not isinstance(answer, dict) or not _finished(answer)):
            raise _Passing("a half answer" if isinstance(answer, dict) else "an answer that is no JSON")
        return status, answer

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self, request: ChatRequest, answer: Mapping[str, Any]) -> ChatAnswer:
        choice = answer["choices"][0]
        message = choice.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        refused = bool(isinstance(message, dict) and message.get("refusal"))
        text = self._clean(_text(content) or "")
        reason = str(choice["finish_reason"])
        if reason == "content_filter" or refused:
            problem = FILTERED
        elif reason == "length":
            problem = CUT_OFF
        elif _text(content) is None:
            problem = NOT_TEXT
        else:
            problem = "" if text.strip() else EMPTY
        usage = answer.get("usage")
        asked, said = (_count(usage, name) for name in ("prompt_tokens", "completion_tokens"))
        estimated = asked is None or said is None
        if asked is None:
            asked = estimated_tokens(*(one.content for one in request.messages))
        if said is None:
            said = estimated_tokens(text)
        return ChatAnswer(text, reason, asked, said, estimated, problem)

    def _clean(self, text: str) -> str:
        return scrubbed(text, self._settings.key)

    def _said(self, answer: Any) -> str:
        """Return the message of an error body, in any of the formats that servers use."""
        error = answer.get("error", answer) if isinstance(answer, dict) else answer
        said = error.get("message", error) if isinstance(error, dict) else error
        return self._clean(first_line(said if isinstance(said, str) else str(said or "nothing"), 200))

    def _unknown_model(self, model: str, said: str) -> str:
        return (
            f"{self._settings.shown_url} knows no model {model!r}: set {MODEL}, or model below [llm] in driftline.toml."
            f" It says: {said}"
        )


def _list_of(choices: Sequence[str]) -> dict[str, Any]:
    """Return the `response_format` that asks for a JSON list of some of these names."""
    names = {"type": "array", "items": {"type": "string", "enum": list(choices)}, "minItems": 2, "maxItems": 8}
    schema = {"type": "object", "properties": {"names": names}, "required": ["names"], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "names", "strict": True, "schema": schema}}


def _parsed(data: bytes) -> Any:
    try:
        return parse_json(data)
    except ValueError:
        return first_line(data.decode(errors="replace"), 200)


def _finished(answer: Mapping[str, Any]) -> bool:
    """True if the answer has a finish reason. A stream that was cut, or an answer without choices, has none."""
    choices = answer.get("choices")
    return bool(
        isinstance(choices, list) and choices and isinstance(choices[0], dict) and choices[0].get("finish_reason")
    )


def _text(content: Any) -> str | None:
    """Return the text of a message: a string, or the joined texts of a list of parts; `None` for anything else."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if texts and len(texts) == len(parts) else None
    return None


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _ids(answer: Any) -> list[str]:
    data = answer.get("data") if isinstance(answer, dict) else None
    return [one["id"] for one in data if isinstance(one, dict) and isinstance(one.get("id"), str)] if data else []


def _names_no_model(status: int, said: str, model: str) -> bool:
    """True if an error says that the server does not know the model: status 404, or 400 with a message that names the
    model."""
    return status == 404 or (status == 400 and "model" in said.lower() and model in said)


def _retry_after(told: str) -> float | None:
    """Return the seconds of a Retry-After header, which is a number or a date; None if it is neither."""
    try:
        return max(0.0, float(told))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(told).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
