"""Binds the socket, prints the address, runs the server, and stops running jobs at the end."""

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
    """A bound socket: its port is known and no other process can take it."""

    sock: socket.socket
    port: int


def listen(host: str, port: int) -> Listening:
    """Bind a socket to a host and port; port 0 chooses a free one."""
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
    """Return the address to open in a browser, with the token unless the server is read-only."""
    anywhere = settings.host in ("0.0.0.0", "::")
    name = socket.gethostname() if anywhere else settings.host
    place = f"http://{f'[{name}]' if ':' in name else name}:{port}/"
    return place if settings.read_only else f"{place}?{urlencode({'token': settings.token})}"


def require_expose(host: str, exposed: bool) -> None:
    """Raise unless `--expose` was given or the host is only reachable from this machine."""
    if not exposed and not is_loopback(host):
        raise DriftlineError(
            f"--host {host} lets other machines in: whoever has the token can run programs here, and with --read-only"
            " whoever reaches the port sees the store; nothing is encrypted on the way. Add --expose if that is meant."
        )


def build(settings: ServeSettings) -> uvicorn.Server:
    """Load the plugins, so that their targets are known, and return a server that is not running yet."""
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
    """Serve requests until interrupted. `ready` is called when the server accepts connections."""
    server = build(settings)
    ready()  # the socket listens already: who comes now waits for a moment
    if browser:
        webbrowser.open(address(settings, listening.port))
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn has ended in good order, and raises it again
        server.run(sockets=[listening.sock])
