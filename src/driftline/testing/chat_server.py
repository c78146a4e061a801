"""A server of `/v1/chat/completions` whose replies, and faults of real servers, are chosen by the test.

    with ChatServer(lambda body: reply("hello")) as server:
        ...  # OPENAI_BASE_URL = server.url

A script is a list of replies, the last of which is repeated, or a function from the request to a reply.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "scripted-1"


@dataclass(frozen=True)
class ChatReply:
    """One HTTP response: `body` is sent as JSON, `raw` is sent unchanged."""

    status: int = 200
    body: Any = None
    raw: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    dropped: bool = False  # the connection is closed without a word
    cut: bool = False  # closed in the middle of the body
    silent: bool = False  # no reply is sent until the server ends


def reply(text: Any, *, finish: str | None = "stop", usage: tuple[int, int] | None = (100, 50)) -> ChatReply:
    """Return a model's answer. `finish=None` imitates a cut stream, `usage=None` a server that counts no tokens."""
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
    }
    if usage:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return ChatReply(body=body)


def failure(status: int, message: str = "", *, retry_after: str = "") -> ChatReply:
    headers = {"Retry-After": retry_after} if retry_after else {}
    return ChatReply(status, {"error": {"message": message, "type": "error", "code": None}}, headers=headers)


DROPPED = ChatReply(dropped=True)
HALF = ChatReply(body=reply("half of it").body, cut=True)
SILENT = ChatReply(silent=True)
HTML = ChatReply(raw=b"<html><body>Sign in to the network</body></html>", headers={"Content-Type": "text/html"})
NO_CHOICE = ChatReply(body={**reply("").body, "choices": []})

Script = Callable[[dict[str, Any]], ChatReply]


class ChatServer:
    """An HTTP server for tests; it runs in a thread, on its own port."""

    def __init__(
        self, script: Script | Sequence[ChatReply], *, key: str = "", models: Sequence[str] = (MODEL,)
    ) -> None:
        """`key`: the only API key that is accepted; empty accepts any. `models`: the listed models; empty: no list."""
        self.requests: list[dict[str, Any]] = []  # bodies of chat requests, in their order
        self.connections = 0
        self._script = script
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._key = key
        self._models = models
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._http.shutdown()
        self._http.server_close()

    def _next(self, body: dict[str, Any]) -> ChatReply:
        with self._lock:
            self.requests.append(body)
            number = len(self.requests) - 1
        if callable(self._script):
            return self._script(body)
        return self._script[min(number, len(self._script) - 1)]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                with server._lock:
                    server.connections += 1
                super().setup()

            def do_GET(self) -> None:
                if not self._allowed():
                    return
                if self.path != "/v1/models" or not server._models:
                    self._send(failure(404, "not found"))
                    return
                listed = [{"id": name, "object": "model", "created": 0, "owned_by": "test"} for name in server._models]
                self._send(ChatReply(body={"object": "list", "data": listed}))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not self._allowed():
                    return
                if self.path != "/v1/chat/completions":
                    self._send(ChatReply(404, raw=b"not found"))
                elif server._models and body["model"] not in server._models:
                    self._send(failure(404, f"The model `{body['model']}` does not exist"))
                else:
                    self._send(server._next(body))

            def _allowed(self) -> bool:
                given = self.headers.get("Authorization", "")
                if not server._key or given == f"Bearer {server._key}":
                    return True
                self._send(failure(401, f"Incorrect API key provided: {given.partition(' ')[2]}"))
                return False

            def _send(self, answer: ChatReply) -> None:
                if answer.silent:
                    server._ended.wait()
                if answer.dropped or answer.silent:
                    self.close_connection = True
                    return
                data = json.dumps(answer.body).encode() if answer.raw is None else answer.raw
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: len(data) // 2] if answer.cut else data)
                self.close_connection |= answer.cut

            def log_message(self, *_: object) -> None:
                """Do nothing: tests print no access log."""

        return Handler
