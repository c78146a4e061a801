"""Listening: the socket, the address that is printed, and an end that stops what runs."""

from __future__ import annotations

import contextlib
import errno
import socket
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

import uvicorn

from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.serve.access import is_loopback
from driftline.serve.app import application
from driftline.serve.settings import ServeSettings

_GRACE = 2  # seconds in which open connections may end by themselves


@dataclass(frozen=True)
class Listening:
    """A socket that is bound: the address is known, and nobody else can take it."""

    sock: socket.socket
    port: int


def listen(host: str, port: int) -> Listening:
    """Take the port; 0 is any that is free."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except OSError as error:
        raise DriftlineError(f"--host {host}: this machine has no such address ({error.strerror}).") from error
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(128)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise DriftlineError(
                f"--port {port}: another program listens there. Name another port, or 0 for any that is free."
            ) from error
        if error.errno == errno.EACCES:
            raise DriftlineError(f"--port {port}: this port is not for ordinary users. Name one above 1023.") from error
        raise DriftlineError(f"--host {host} --port {port}: cannot listen there: {error.strerror}.") from error
    return Listening(sock, sock.getsockname()[1])


def address(settings: ServeSettings, port: int) -> str:
    """What to open in a browser; the token is in it, unless none is needed."""
    anywhere = settings.host in ("0.0.0.0", "::")
    name = socket.gethostname() if anywhere else settings.host
    place = f"http://{f'[{name}]' if ':' in name else name}:{port}/"
    return place if settings.read_only else f"{place}?{urlencode({'token': settings.token})}"


def require_expose(host: str, exposed: bool) -> None:
    """To let other machines in takes two words, not one."""
    if not exposed and not is_loopback(host):
        raise DriftlineError(
            f"--host {host} lets other machines in: whoever has the token can run programs here, and with --read-only"
            " whoever reaches the port sees the store; nothing is encrypted on the way. Add --expose if that is meant."
        )


def build(settings: ServeSettings) -> uvicorn.Server:
    """A server that is yet to run; the plugins are loaded, so that their targets are known."""
    load_plugins(settings.plugins)
    made: list[uvicorn.Server] = []
    server = uvicorn.Server(
        uvicorn.Config(
            application(settings, ending=lambda: made[0].should_exit),
            log_level="error",
            access_log=False,
            server_header=False,
            ws="none",
            proxy_headers=False,
            lifespan="on",
            timeout_graceful_shutdown=_GRACE,
        )
    )
    made.append(server)
    return server


def serve(settings: ServeSettings, listening: Listening, *, ready: Callable[[], None], browser: bool = False) -> None:
    """Answer until interrupted."""
    server = build(settings)
    ready()  # the socket listens already: who comes now waits for a moment
    if browser:
        webbrowser.open(address(settings, listening.port))
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn has ended in good order, and raises it again
        server.run(sockets=[listening.sock])
