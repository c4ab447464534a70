"""Clients that end while another has their end of a link: ``python -I -S gone_clients.py WAY HELLO PUT PATH…``.

HELLO and PUT are requests of a link in hexadecimal; PUT hands over one descriptor. The program prints the reply to
every Put, in hexadecimal, a line each, and ends. It knows nothing of nnhal and so starts at once.
"""

import os
import socket
import sys

_BYTES = 1 << 16


def _connect(path: str, hello: bytes) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(path)
    link.send(hello)
    link.recv(_BYTES)
    return link


class _Client:
    """Links to servers, in order."""

    def __init__(self, hello: bytes, put: bytes, paths: list[str]) -> None:
        self.hello, self._put, self.paths = hello, put, paths
        self.links = [_connect(path, hello) for path in paths]
        self.first, self.last = self.links[0], self.links[-1]

    def put(self, link: socket.socket, handed: socket.socket) -> None:
        socket.send_fds(link, [self._put], [handed.fileno()])
        print(link.recv(_BYTES).hex(), flush=True)

    def put_with_descriptor(self, link: socket.socket, carried: socket.socket, early: bool = False) -> None:
        """Put an end of a pair, in which another descriptor waits."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if early:
            socket.send_fds(ours, [b"x"], [carried.fileno()])
        self.put(link, theirs)
        if not early:
            socket.send_fds(ours, [b"x"], [carried.fileno()])


def itself(client: _Client) -> None:
    client.put(client.first, client.first)


def crosswise(client: _Client) -> None:
    """Put two links on each other."""
    client.put(client.first, client.last)
    client.put(client.last, client.first)


def as_carried(client: _Client) -> None:
    """Put a socket in which the link waits."""
    client.put_with_descriptor(client.first, client.first, early=True)


def as_later_carried(client: _Client) -> None:
    """Put a socket, and have the link wait in it afterwards."""
    client.put_with_descriptor(client.first, client.first)


def as_nested_carried(client: _Client) -> None:
    """Put a socket in which a socket waits in which the link waits."""
    ours, theirs = socket.socketpair()
    socket.send_fds(ours, [b"x"], [client.first.fileno()])
    client.put_with_descriptor(client.first, theirs)


def as_crosswise_carried(client: _Client) -> None:
    """Put two sockets, in each of which the link to the other server waits."""
    client.put_with_descriptor(client.first, client.last)
    client.put_with_descriptor(client.last, client.first)


def before_connecting(client: _Client) -> None:
    """Put a socket that becomes a link only then."""
    late = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.put(client.first, late)
    late.connect(client.paths[0])
    late.send(client.hello)
    late.recv(_BYTES)


def by_listening(client: _Client) -> None:
    """Put a socket that listens, where a connection with the link in it waits to be accepted."""
    listener, connection = (socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2))
    listener.bind("")
    listener.listen()
    connection.connect(listener.getsockname())
    socket.send_fds(connection, [b"x"], [client.first.fileno()])
    client.put(client.first, listener)


def as_datagrams(client: _Client) -> None:
    """Put an end of a pair on which the end of the other side is not seen."""
    client.put(client.first, socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0])


def forks(client: _Client) -> None:
    """End, but for a fork that uses the link when it is told to."""
    reader, writer = os.pipe()
    if os.fork():
        os.read(reader, 1)  # it is there
        return
    print(os.getpid(), flush=True)
    os.write(writer, b"x")
    for _ in sys.stdin:
        client.put(client.first, socket.socketpair()[0])


if __name__ == "__main__":
    globals()[sys.argv[1]](_Client(bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3]), sys.argv[4:]))
