"""Access control: every request of a browser or another machine is checked here before a page handles it.

- *Host*: only names of this server. A page of another site that points its own name at this address (DNS rebinding) is
  refused.
- *Origin*: what changes something must come from a page of this server, never from another site's form or script.
- *Token*: known to whoever started the server. It comes in the address once and is then a cookie (HttpOnly,
  SameSite=Strict). With `--read-only` there is nothing that it would protect from being started, and none is needed.
- *Size*: a body that is too large is refused by its announced length, or as soon as more than that has come.
- *Headers*: pages load nothing from elsewhere, hold no inline script or style, and stand in no frame.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from driftline.serve.settings import ServeSettings
from driftline.serve.templating import Pages

FORM = 1 << 20  # bytes of a form without a file
FOLDERS, ASSETS = "/folders/", "/assets/"
_SAFE = ("GET", "HEAD")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # no-referrer would take the origin from forms as well
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class TooMuchSent(Exception):
    """Raised when the body of a request is larger than the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"More was sent than this server takes ({limit / (1 << 20):,.0f} MiB). Start it with a larger"
            " --upload-limit, or run driftline check in a terminal."
        )


def too_large(pages: Pages, error: TooMuchSent, *, bare: bool = False) -> Response:
    answer = pages.error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error), bare=bare)
    answer.headers["Connection"] = "close"  # the rest of the body is not read
    return answer


class AccessControl:
    """The outermost ASGI layer of the application: refuses requests that break a rule of this module."""

    def __init__(self, app: ASGIApp, settings: ServeSettings, pages: Pages, uploads: frozenset[str]) -> None:
        """`uploads` are the addresses that accept files."""
        self._app, self._settings, self._pages, self._uploads = app, settings, pages, uploads
        self._names = _own_names(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there is no websocket here
        send = _with_headers(send)
        refusal = self._answer(Request(scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await self._app(scope, _counted(receive, self._limit(scope["path"])), send)

    def _answer(self, request: Request) -> Response | None:
        """Return the response that refuses the request, or None if the page may be shown."""
        host = request.headers.get("host", "")
        if not self._is_own(host):
            return self._refuse(
                HTTPStatus.MISDIRECTED_REQUEST, f"This server is not {host or 'a host without a name'}."
            )
        if request.method not in (*_SAFE, "POST"):
            return self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, f"Nothing here is done with {request.method}.")
        if request.method == "POST" and (refusal := self._cross_site(request, host)):
            return refusal
        if not self._settings.read_only and (refusal := self._without_token(request, host)):
            return refusal
        length = request.headers.get("content-length", "0")
        limit = self._limit(request.url.path)
        if not length.isascii() or not length.isdigit() or int(length) > limit:
            return self._too_large(limit)
        return None

    def _is_own(self, host: str) -> bool:
        name = _name_of(host)
        if name in self._names:
            return True
        # An address that is a number cannot be pointed elsewhere: no name is looked up for it.
        return self._settings.exposed and _is_number(name)

    def _cross_site(self, request: Request, host: str) -> Response | None:
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "same-origin")
        if origin in (f"http://{host}", f"https://{host}") and site == "same-origin":
            return None
        told = f"It came from {origin}." if origin else "It does not say which page it came from (Origin)."
        return self._refuse(HTTPStatus.FORBIDDEN, f"Only a page of this server may start or stop something. {told}")

    def _without_token(self, request: Request, host: str) -> Response | None:
        path = request.url.path
        if path.startswith((ASSETS, f"{FOLDERS}{self._settings.folder_key}/")):
            return None
        name = f"driftline-{host.rpartition(':')[2] if ':' in host else '80'}"  # cookies know no ports
        if self._is_token(request.cookies.get(name, "")):
            return None
        given = request.query_params.get("token", "")
        if request.method in _SAFE and self._is_token(given):
            # Seen by nobody else from now on: not in the history, nor in the address of a page that is shown to others.
            rest = [(key, value) for key, value in parse_qsl(request.url.query) if key != "token"]
            answer = RedirectResponse(f"{path}?{urlencode(rest)}" if rest else path, HTTPStatus.SEE_OTHER)
            answer.set_cookie(name, given, httponly=True, samesite="strict", path="/")
            return answer
        return self._refuse(
            HTTPStatus.FORBIDDEN,
            "This server needs the token of whoever started it. Open the address that driftline serve printed, with"
            " ?token= in it.",
        )

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._settings.token.encode())

    def _limit(self, path: str) -> int:
        return FORM + self._settings.upload if path in self._uploads else FORM

    def _too_large(self, limit: int) -> Response:
        return too_large(self._pages, TooMuchSent(limit), bare=True)

    def _refuse(self, status: HTTPStatus, sentence: str) -> Response:
        return self._pages.error(status, sentence, bare=True)


def _own_names(settings: ServeSettings) -> frozenset[str]:
    names = {"127.0.0.1", "localhost", "::1", settings.host.lower()}
    if settings.exposed:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return frozenset(names)


def _name_of(host: str) -> str:
    """Return the name in a Host header, without the port, in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """True if a server that listens on this host is reachable from this machine only."""
    return host == "localhost" or (_is_number(host) and ipaddress.ip_address(host).is_loopback)


def _counted(receive: Receive, limit: int) -> Receive:
    """Return a `receive` that raises `TooMuchSent` once the body is longer than `limit` bytes."""
    left = limit

    async def counting() -> Message:
        nonlocal left
        message = await receive()
        if message["type"] == "http.request":
            left -= len(message.get("body", b""))
            if left < 0:
                raise TooMuchSent(limit)
        return message

    return counting


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = Headers(raw=message.get("headers", []))
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                if name not in given:
                    headers[name] = value
        await send(message)

    return sending
