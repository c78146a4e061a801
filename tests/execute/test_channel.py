"""Messages between processes, and what happens when one of them goes away."""

from __future__ import annotations

import os
import socket

import pytest

from driftline.execute.channel import Channel, ChannelClosed
from driftline.execute.messages import NURSERY, PARENT_OF_NURSERY, Serve


def test_who_has_read_a_message_may_go_away_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """A worker that serves one job closes the line as soon as it has its message: sent is sent."""
    ours, theirs = socket.socketpair()
    other, send = Channel(theirs, NURSERY), socket.send_fds
    got: list[object] = []

    def read_and_closed(*arguments: object) -> int:
        sent = send(*arguments)  # type: ignore[arg-type]
        message, fds = other.receive_with_fds(5)
        got.append(message)
        for fd in fds:
            os.close(fd)
        theirs.close()
        return sent

    monkeypatch.setattr(socket, "send_fds", read_and_closed)
    with ours, open(tmp_path / "log", "w") as file:
        Channel(ours, PARENT_OF_NURSERY).send(Serve("log"), file.fileno())
        assert got == [Serve("log")]
        with pytest.raises(ChannelClosed):
            Channel(ours, PARENT_OF_NURSERY).send(Serve("log"))
