"""Who may ask for what: hosts, origins, tokens, sizes, headers, and `--read-only`."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from serving import Serve, Served


@pytest.fixture(scope="module")
def server(serve: Serve, filled: Path) -> Served:
    return serve(filled)


@pytest.fixture(scope="module")
def read_only(serve: Serve, filled: Path) -> Served:
    return serve(filled, read_only=True)


def raw(server: Served, head: str, *, body: bytes = b"") -> tuple[int, str]:
    """A request as it is written, which a library would not send; the status and the answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return int(answer.split()[1]), answer.decode()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8777", "127.0.0.1.evil.example", "localhost.evil", "", "[::2]"]
)
def test_other_hosts_are_refused(read_only: Served, host: str) -> None:
    status, text = raw(read_only, f"GET /bugs HTTP/1.1\nHost: {host}\nConnection: close")
    assert status in (400, 421)
    assert "wrong-value" not in text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:9000", "[::1]:8777"])
def test_own_names_are_taken_with_any_port(read_only: Served, host: str) -> None:
    """A tunnel has another port at its other end."""
    status, _ = raw(read_only, f"GET /bugs HTTP/1.1\nHost: {host}\nConnection: close")
    assert status == 200


def test_nothing_is_seen_without_the_token(server: Served) -> None:
    pages = ("/bugs", "/report", "/coverage", "/bugs/inductor-1", "/jobs", "/compare", "/folders", "/folders/x/y")
    for path in (*pages, "/nothing"):
        answer = httpx.get(server.origin + path)
        assert answer.status_code == 403, path
        assert "needs the token" in answer.text and 'href="/bugs"' not in answer.text
    assert httpx.get(f"{server.origin}/bugs?token=wrong").status_code == 403
    assert httpx.get(f"{server.origin}/bugs", cookies={f"driftline-{server.port}": "wrong"}).status_code == 403
    assert httpx.get(f"{server.origin}/assets/style.css").status_code == 200  # of the page that says so


def test_the_token_moves_from_the_address_into_a_cookie(server: Served) -> None:
    answer = httpx.get(f"{server.origin}/bugs?text=exp&token={server.settings.token}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/bugs?text=exp"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie
    seen = httpx.get(f"{server.origin}/bugs?text=exp", cookies=dict(answer.cookies))
    assert seen.status_code == 200 and server.settings.token not in seen.text


def test_two_servers_have_two_tokens(server: Served, serve: Serve, filled: Path) -> None:
    other = serve(filled)
    assert other.settings.token != server.settings.token
    cookies = {f"driftline-{other.port}": server.settings.token}
    assert httpx.get(f"{other.origin}/bugs", cookies=cookies).status_code == 403


def test_pages_load_nothing_from_elsewhere_and_hold_no_inline_script(server: Served) -> None:
    client = server.client()
    for path in ("/bugs", "/compare", "/nothing", "/assets/page.js"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
        assert "server" not in headers


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(server: Served, method: str) -> None:
    assert httpx.request(method, f"{server.origin}/bugs").status_code == 405


# -- what starts work ------------------------------------------------------------------------------------------------

STARTS = ["/jobs/new/hunt", "/jobs/new/check", "/jobs/1/stop", "/jobs/1/resume", "/jobs/1/again", "/jobs/1/remove"]


@pytest.mark.parametrize("path", STARTS)
def test_work_needs_the_token(server: Served, path: str) -> None:
    answer = httpx.post(server.origin + path, headers={"Origin": server.origin})
    assert answer.status_code == 403 and "needs the token" in answer.text
    with_token = httpx.post(f"{server.origin}{path}?token={server.settings.token}", headers={"Origin": server.origin})
    assert with_token.status_code == 403  # an address is not enough: anybody may put it into a link


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},  # another server on this machine gets our cookies, and may not use them
        {"Origin": "https://127.0.0.1.evil.example"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {},
    ],
)
def test_work_is_started_from_own_pages_alone(server: Served, headers: dict[str, str]) -> None:
    client = server.client()
    client.headers.pop("Origin")
    if "Sec-Fetch-Site" in headers:
        headers = {"Origin": server.origin, **headers}
    answer = client.post("/jobs/new/hunt", data={"budget": "1s"}, headers=headers)
    assert answer.status_code == 403 and "Only a page of this server" in answer.text
    assert not (server.settings.store / "jobs").exists()


def test_a_large_body_is_refused_before_it_is_read(server: Served) -> None:
    client = server.client()
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    for path, length in (("/jobs/new/check", 10 * server.settings.upload), ("/jobs/new/hunt", 2 << 20)):
        status, text = raw(
            server,
            f"POST {path} HTTP/1.1\nHost: 127.0.0.1:{server.port}\nOrigin: {server.origin}\nCookie: {cookie}\n"
            f"Content-Type: multipart/form-data; boundary=x\nContent-Length: {length}",
        )  # nothing of the body was ever sent
        assert status == 413 and "--upload-limit" in text


def test_a_body_of_unknown_length_is_read_up_to_the_limit(serve: Serve, filled: Path) -> None:
    server = serve(filled, upload=1 << 16)
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        yield b'--x\r\nContent-Disposition: form-data; name="model"; filename="a.onnx"\r\n\r\n'
        while sent < 1 << 28:
            sent += 1 << 16
            yield b"x" * (1 << 16)

    answer = None
    with contextlib.suppress(httpx.TransportError):  # it may hang up while we still send
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        answer = server.client().post("/jobs/new/check", content=pieces(), headers=headers)
    assert answer is None or answer.status_code == 413
    assert sent < 1 << 27
    assert not (filled / "jobs").exists()


def test_read_only_needs_no_token_and_takes_nothing(read_only: Served) -> None:
    seen = httpx.get(f"{read_only.origin}/bugs").text
    assert "wrong-value" in seen and "read-only" in seen and "/jobs" not in seen and 'method="post"' not in seen
    assert read_only.address == f"{read_only.origin}/"
    name = re.findall(r'href="/bugs/([\w-]+)"', seen)[0]
    assert 'method="post"' not in httpx.get(f"{read_only.origin}/bugs/{name}").text
    headers = {"Origin": read_only.origin}
    for path in (*STARTS, "/bugs", "/compare", "/"):
        assert httpx.post(read_only.origin + path, headers=headers).status_code in (404, 405), path
    for path in ("/jobs", "/jobs/1", "/jobs/stream"):
        assert httpx.get(read_only.origin + path).status_code == 404
    assert not (read_only.settings.store / "jobs").exists()
