"""A real server on a loopback port, in a thread of the test process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from driftline.serve.server import address, build, listen
from driftline.serve.settings import ServeSettings


@dataclass
class Served:
    """A server that runs."""

    settings: ServeSettings
    port: int

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """As it is printed, with the token."""
        return address(self.settings, self.port)

    def client(self, **more: Any) -> httpx.Client:
        """As a browser that has opened the printed address."""
        client = httpx.Client(base_url=self.origin, headers={"Origin": self.origin}, timeout=60, **more)
        client.get(self.address, follow_redirects=True)
        return client


@contextmanager
def served(settings: ServeSettings) -> Iterator[Served]:
    listening = listen(settings.host, 0)
    server = build(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening.sock]})
    thread.start()
    try:
        yield Served(settings, listening.port)
    finally:
        server.should_exit = True
        thread.join(60)
        listening.sock.close()


Serve = Callable[..., Served]
