"""Messages between processes: length-prefixed JSON over a Unix socket, of the types that a link declares.

Not stdout, since compilers write to it, and not pickle, which runs code. Standard library only: the worker side runs in
environments that have little else.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Generic

from driftline.core.wire import DAMAGES, codec_of, loads
from driftline.execute.messages import Link, Received, Sent

_LENGTH = struct.Struct("<I")


class ChannelClosed(Exception):
    """The other side is gone."""


class ChannelTimeout(Exception):
    """No whole message arrived in time. A part that arrived is kept for the next call."""


class ChannelDamaged(ChannelClosed):
    """The other side sent something that is not a message. The channel cannot be used any more."""


class Channel(Generic[Sent, Received]):
    """One end of a socket pair."""

    def __init__(self, sock: socket.socket, link: Link[Sent, Received]) -> None:
        self._encode, self._decode = codec_of(link.sends).encode, codec_of(link.receives).decode
        self._most = link.most
        self._socket = sock
        self._buffer = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Sent, fd: int | None = None, timeout: float | None = None) -> None:
        """Send one message, with an open file descriptor beside it if given. Raises `ChannelTimeout` if the other side
        does not read it in time; the channel cannot be used any more then."""
        data = json.dumps(self._encode(message)).encode()
        if len(data) > self._most:
            raise ValueError(f"a message of {len(data):,} bytes, and {self._most:,} may be sent")
        rest = memoryview(_LENGTH.pack(len(data)) + data)
        deadline = None if timeout is None else time.monotonic() + timeout
        fds = [] if fd is None else [fd]
        try:
            # Not `settimeout`, which would also affect another thread that receives.
            poller = select.poll()
            poller.register(self._socket, select.POLLOUT)
            while rest:
                left = None if deadline is None else max(deadline - time.monotonic(), 0.0) * 1000
                if not poller.poll(left):
                    raise ChannelTimeout("what was sent is not read")
                with contextlib.suppress(BlockingIOError, TimeoutError):
                    if fds:
                        rest = rest[socket.send_fds(self._socket, [rest], fds, socket.MSG_DONTWAIT) :]
                        fds = []
                    else:
                        rest = rest[self._socket.send(rest, socket.MSG_DONTWAIT) :]
        except (OSError, ValueError) as error:  # ValueError: another thread has closed the socket meanwhile
            raise ChannelClosed(str(error)) from error

    def receive(self, timeout: float | None = None) -> Received:
        """Return the next message. The kernel closes file descriptors that come with it. Raises `ChannelDamaged` for
        anything that is not a message."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (frame := self._take_frame()) is None:
            self._fill(deadline, lambda: self._socket.recv(1 << 16))
        return self._read(frame)

    def receive_with_fds(self, timeout: float | None = None) -> tuple[Received, list[int]]:
        """Return the next message, and the file descriptors that arrived so far, in order; they may belong to later
        messages. A timeout of 0 reads only what has arrived."""
        deadline = None if timeout is None else time.monotonic() + timeout
        fds: list[int] = []

        def take() -> bytes:
            data, received, _, _ = socket.recv_fds(self._socket, 1 << 16, 4)
            fds.extend(received)
            return data

        while (frame := self._take_frame()) is None:
            self._fill(deadline, take)
        return self._read(frame), fds

    def _fill(self, deadline: float | None, take: Callable[[], bytes]) -> None:
        """Add data from the socket to the buffer; waits for it until the deadline."""
        remaining = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        try:
            self._socket.settimeout(remaining)
            data = take()
        except (TimeoutError, BlockingIOError) as error:
            raise ChannelTimeout from error
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        if not data:
            raise ChannelClosed("end of stream")
        self._buffer += data

    def _read(self, frame: bytes) -> Received:
        try:
            return self._decode(loads(frame))
        except DAMAGES as error:
            raise ChannelDamaged(f"{type(error).__name__}: {error}"[:200]) from error

    @property
    def pending(self) -> bool:
        """True if another whole message is in the buffer. `select` does not know about data that was read from the
        socket."""
        return len(self._buffer) >= _LENGTH.size and len(self._buffer) >= _LENGTH.size + self._frame_length()

    def _frame_length(self) -> int:
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self._most:
            raise ChannelDamaged(f"a message of {length:,} bytes")
        return int(length)

    def _take_frame(self) -> bytes | None:
        if not self.pending:
            return None
        end = _LENGTH.size + self._frame_length()
        frame = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return frame

    def hang_up(self) -> None:
        """End the connection for both sides, and wake a thread of this process that waits on it; `close` does
        neither."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


def channel_pair(link: Link[Sent, Received]) -> tuple[Channel[Sent, Received], socket.socket]:
    """Return this process's end as a channel, and the raw socket to pass to another process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(ours, link), theirs
