"""The device's link: sessions, and the descriptors that each has put or may take."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nnhal.v1 import link_pb2 as wire
from tests.support.foreign.faults import Faults

MAX_BYTES = 65_536
_MAX_DESCRIPTORS = 16


class Session:
    """Objects of one link. It ends with the link."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)
        self.put: dict[int, int] = {}
        self.offered: dict[int, int] = {}
        self.objects: dict[int, Any] = {}
        self._sockets: list[socket.socket] = []
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """Return a number that the session has not used: a handle, or the id of a descriptor."""
        return next(self._numbers)

    def keep(self, thing: Any) -> int:
        handle = self.number()
        self.objects[handle] = thing
        return handle

    def offer(self, descriptor: int) -> int:
        """Let the client take a descriptor, and return its id."""
        number = self.number()
        self.offered[number] = descriptor
        return number

    def claim(self, numbers: Sequence[int]) -> list[socket.socket]:
        """Return sockets that the client has put, which belong to the session's objects from now on."""
        claimed = [socket.socket(fileno=self.put.pop(number)) for number in numbers]
        self._sockets += claimed
        return claimed

    def channel(self) -> tuple[socket.socket, int]:
        """Make a channel: the end that is served, and the id of the client's end."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sockets.append(ours)
        return ours, self.offer(theirs.detach())

    def end(self) -> None:
        """Shut all channels down and close all descriptors."""
        for each in self._sockets:
            hang_up(each)
        for descriptor in (*self.put.values(), *self.offered.values()):
            os.close(descriptor)
        self.put.clear()
        self.offered.clear()
        self.objects.clear()


class LinkServer:
    """Accepts links in a directory."""

    def __init__(
        self, directory: Path, faults: Faults, capabilities: Sequence[wire.LinkCapability.ValueType] = ()
    ) -> None:
        """``capabilities`` are those that Welcome names if the client has them as well."""
        self._faults = faults
        self._capabilities = capabilities
        self.sessions: dict[str, Session] = {}
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(str(directory / "link.sock"))
        self._listening.listen(64)
        in_thread(self._accept)

    def _accept(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            in_thread(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        session = Session()
        self.sessions[session.token] = session
        try:
            while True:
                message, descriptors, _, _ = socket.recv_fds(connection, MAX_BYTES, _MAX_DESCRIPTORS)
                if not message:
                    return
                request = wire.LinkRequest.FromString(message)
                reply, sent = self._answer(session, request, descriptors)
                is_put = request.WhichOneof("request") == "put"
                if is_put and self._faults.strikes("is silent"):
                    continue
                for _ in range(1 + (is_put and self._faults.strikes("answers puts twice"))):
                    socket.send_fds(connection, [reply.SerializeToString()], sent)
                for descriptor in sent:
                    os.close(descriptor)
        except OSError:
            return
        finally:
            del self.sessions[session.token]
            session.end()
            connection.close()

    def _answer(
        self, session: Session, request: wire.LinkRequest, descriptors: list[int]
    ) -> tuple[wire.LinkReply, list[int]]:
        match request.WhichOneof("request"):
            case "hello":
                welcome = wire.Welcome(
                    session_token=session.token,
                    max_message_bytes=MAX_BYTES,
                    max_descriptors_per_message=_MAX_DESCRIPTORS,
                    max_descriptors_per_session=1024,
                    capabilities={*self._capabilities} & {*request.hello.capabilities},
                )
                return wire.LinkReply(welcome=welcome), []
            case "put":
                numbers = [session.number() for _ in descriptors]
                session.put.update(zip(numbers, descriptors, strict=True))
                if self._faults.strikes("puts extra"):
                    numbers.append(session.number())
                if self._faults.strikes("puts the same"):
                    numbers = [min(session.put)] * len(numbers)
                if self._faults.strikes("puts zero"):
                    numbers = [0] * len(numbers)
                if self._faults.strikes("puts nothing"):
                    return wire.LinkReply(drop=wire.DropDone()), []
                return wire.LinkReply(put=wire.PutDone(descriptor_ids=numbers)), []
            case "take":
                descriptor = session.offered.pop(request.take.descriptor_id, None)
                if descriptor is None:
                    return wire.LinkReply(refusal=wire.Refusal(message="there is no such descriptor")), []
                return wire.LinkReply(take=wire.TakeDone()), [descriptor]
            case "drop":
                for number in request.drop.descriptor_ids:
                    for table in (session.put, session.offered):
                        with contextlib.suppress(KeyError):
                            os.close(table.pop(number))
                return wire.LinkReply(drop=wire.DropDone()), []
            case _:
                return wire.LinkReply(refusal=wire.Refusal(message="no request", fatal=True)), []


def in_thread(work: Any, *arguments: Any) -> None:
    """Do something in a thread that ends with the process."""
    threading.Thread(target=work, args=arguments, daemon=True).start()


def hang_up(end: socket.socket) -> None:
    """End a channel at both ends; harmless when repeated."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
