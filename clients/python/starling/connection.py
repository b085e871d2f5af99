"""The Unix socket between a trainer and its peer: lines of text both ways, and the region's file descriptor.

Nothing here waits, except for `wait`. The contract is docs/TRAINERS.md.
"""
import os
import select
import socket

LINE_MAX = 4096  # bytes
RECEIVE = 65536  # bytes at once


class Lost(Exception):
    """The other side has ended the connection."""


class Connection:
    """Connects with the peer that listens at `path`. Raises OSError if none accepts."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._unsent = b""
        self._rest = b""
        self._awaits_descriptor = True
        self.descriptor = None  # of the region, once it has arrived
        try:
            self._socket.connect(os.fspath(path))
        except BaseException:
            self._socket.close()
            raise

    def send(self, text):
        """Sends what the socket accepts now; the rest follows with the next call of `send`, `receive` or `wait`."""
        self._unsent += text.encode()
        self._flush()

    def _flush(self):
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent):]
        except BlockingIOError:
            pass
        except OSError:  # closed by the peer: its last lines may still be unread, so `receive` raises
            self._unsent = b""

    def receive(self):
        """The lines that have arrived. Raises Lost if none is left and the connection has ended."""
        if self._unsent:
            self._flush()
        try:
            data = self._with_descriptor() if self._awaits_descriptor else self._socket.recv(RECEIVE)
        except BlockingIOError:
            return ()
        except OSError as error:
            raise Lost(str(error)) from None
        if not data:
            raise Lost("the peer has ended")
        *lines, self._rest = (self._rest + data).split(b"\n")
        if any(len(line) > LINE_MAX for line in (*lines, self._rest)):
            raise Lost(f"the peer sent a line of more than {LINE_MAX} bytes")
        return [line.decode(errors="replace") for line in lines]

    def _with_descriptor(self):
        data, descriptors, _, _ = socket.recv_fds(self._socket, RECEIVE, 4, socket.MSG_CMSG_CLOEXEC)
        for descriptor in descriptors:
            if self.descriptor is None:
                self.descriptor = descriptor
                self._awaits_descriptor = False
            else:
                os.close(descriptor)
        return data

    def take_descriptor(self):
        """The region's file descriptor, which the caller closes, or None."""
        descriptor, self.descriptor = self.descriptor, None
        return descriptor

    def wait(self, seconds):
        """Returns when something can be received or sent, or after this time. A signal's handler may raise."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        poll.poll(max(0, int(seconds * 1000)))

    def close(self):
        if self.descriptor is not None:
            os.close(self.take_descriptor())
        self._socket.close()
