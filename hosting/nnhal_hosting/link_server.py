"""The server's end of links: each link has a thread, and a session that ends with it."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from google.protobuf.message import DecodeError

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, invalid_argument
from nnhal.link.channel import (
    MAX_MESSAGE_BYTES,
    Channel,
    ChannelClosedError,
    NoDescriptorError,
    ProtocolError,
    peer_credentials,
)
from nnhal.link.client import PROTOCOL_VERSION
from nnhal.link.numbers import CALLS, LENGTHS_BY_RUN, NUMBERED_ANSWERS
from nnhal.link.tenants import tenant_from_wire
from nnhal.shares import Level, Tenant, acting_for
from nnhal.threads import BriefThread, LastingThread
from nnhal.types import ErrorStatus
from nnhal.v1 import link_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_hosting.admin_keys import is_admin_key
from nnhal_hosting.client_processes import ClientProcesses
from nnhal_hosting.descriptors import DescriptorTable, SessionLimits, SessionShares
from nnhal_hosting.handed_over import ChannelEnds, require_usable
from nnhal_hosting.logs import get_logger
from nnhal_hosting.polling import Poller

_log = get_logger(__name__)
_SEND_SECONDS = 5.0
_HELLO_SECONDS = 10.0
_OPERATORS = 8
"""Links beyond the limit that only operators get."""
_RESERVED = 8
"""One in so many links is for processes that have none."""
_OPERATOR_HELLO_SECONDS = 1.0
"""Seconds until a link that only operators get must say who opens it: nobody may keep operators out by sending
nothing."""
_END_SECONDS = 2.0
_ACCEPT_PAUSE_SECONDS = 0.1
"""The time that clients wait if the process has run out of descriptors."""
_NAME_LENGTH = 160
_numbers = itertools.count(1)


class Session:
    """Objects that one link owns. ``on_close`` callbacks run once, when the link closes, however it closes."""

    def __init__(
        self,
        limits: SessionLimits,
        pid: int,
        uid: int,
        poller: Poller | None = None,
        ends: ChannelEnds | None = None,
        shares: SessionShares | None = None,
    ) -> None:
        """``poller`` serves the channels of all sessions, ``ends`` knows them, and they divide ``shares``; the session
        has its own if None.
        """
        self.token = secrets.token_hex(32)
        """What calls of the session carry. Only its client knows it."""
        self.id = f"s{next(_numbers)}"
        """How others call the session; never used twice in a process."""
        self.client_name = ""
        """What the client calls itself."""
        self.opened_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.pid = pid
        self.uid = uid
        self.shares = shares or SessionShares(limits)
        self.descriptors = DescriptorTable(self.shares.descriptors)
        self.poller = poller or Poller()
        self.ends = ends or ChannelEnds()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] | None = []

    @property
    def owner(self) -> str:
        """Name the one who opened it."""
        return owner_in_words(self.pid)

    @property
    def title(self) -> str:
        """The client's name and who it is, for lists and logs."""
        return f"{self.client_name or 'a client'}, {self.owner}"

    @property
    def tenant(self) -> Tenant:
        """The client, beside the other sessions of its process. Those of another user share what one process has."""
        levels = [Level(self.id, self.title)]
        if self.pid > 0:
            client = f"client {self.client_name!r} (pid {self.pid}, uid {self.uid})"
            levels = [Level(f"p{self.pid}", f"process {self.pid}"), Level(self.id, client)]
        if self.uid not in (0, os.geteuid()):
            levels.insert(0, Level(f"u{self.uid}", f"user {self.uid}"))
        return Tenant(tuple(levels))

    @property
    def closed(self) -> bool:
        return self._callbacks is None

    def on_close(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` when the session ends, or now if it has ended."""
        with self._lock:
            if self._callbacks is not None:
                self._callbacks.append(callback)
                return
        callback()

    def close(self) -> None:
        """Run the callbacks, last first, and release the descriptors. Closing again does nothing."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks or [], None
        for callback in reversed(callbacks):
            try:
                callback()
            except Exception:
                _log.exception("releasing a session failed", client=self.title)
        self.descriptors.close()


@dataclass(frozen=True, slots=True)
class _OpenLink:
    session: Session
    channel: Channel
    thread: threading.Thread
    is_spare: bool
    """True if it is one of those that only operators get, and takes no other client's place."""


class _NoRoomError(Exception):
    """No link is left for who asks for one more, and who asks is no operator."""


class LinkServer:
    """Listens on ``path`` and opens a session for each permitted client; ``opened`` is called with each.

    Processes of this user, of root, and of ``allowed_uids`` are permitted. The last eighth of the links is for
    processes that have none, and each other user than this one and root may have half of all. A few operators get in
    even if clients have opened all the links that there may be: processes of this user that have one of the admin keys.
    """

    def __init__(
        self,
        path: Path,
        opened: Callable[[Session], None],
        limits: SessionLimits | None = None,
        allowed_uids: Collection[int] = (),
        poller: Poller | None = None,
        admin_keys: Collection[str] = (),
    ) -> None:
        """Listen. Raises OSError."""
        self.limits = limits or SessionLimits()
        self._poller = poller or Poller()
        self._ends = ChannelEnds()
        self._shares = SessionShares(self.limits)
        self._opened = opened
        self.open_calls: Callable[[Session], Descriptor] | None = None
        """Opens a channel for calls; None if they are served over gRPC only."""
        self._allowed = {0, os.geteuid(), *allowed_uids}
        self._lock = threading.Lock()
        self._admin_keys = tuple(admin_keys)
        self._links: dict[str, _OpenLink] = {}
        self._closing = threading.Event()
        self._path = path
        self._listener = _listen(path)
        self._clients = ClientProcesses()
        self._acceptor = LastingThread(self._accept, "link-acceptor")

    def start(self) -> None:
        self._clients.start()
        self._acceptor.start()

    def close(self) -> None:
        """Stop listening, close every link and wait until their sessions are released."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        if self._acceptor.ident is not None:
            self._acceptor.join()
        self._listener.close()
        self._path.unlink(missing_ok=True)
        with self._lock:
            links = list(self._links.values())
        for link in links:
            link.channel.shutdown()
        for link in links:
            link.thread.join()
        self._clients.close()

    def end(self, session: str, seconds: float = _END_SECONDS) -> None:
        """End the session of a public id, which has the effect of its client closing the link.

        Returns when all that it owned is released, or after ``seconds`` if that takes longer, since an execution may
        have to end first. Raises INVALID_ARGUMENT if there is no such session.
        """
        with self._lock:
            link = self._links.get(session)
        if link is None:
            invalid_argument(f"there is no session {session!r}, or it has ended")
        _log.info("link ended by an operator", client=link.session.title, session=session)
        link.channel.shutdown()
        link.thread.join(seconds)

    def _accept(self) -> None:
        last = ""
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                reason = error.strerror or str(error)
                if not self._closing.wait(_ACCEPT_PAUSE_SECONDS) and reason != last:
                    _log.warning("cannot accept a link", reason=reason)
                    last = reason
                continue
            last = ""
            pid, uid = peer_credentials(connection)
            if uid not in self._allowed:
                _log.warning("link refused: foreign user", uid=uid, owner=owner_in_words(pid))
                _refuse(connection, f"user {uid} may not open links here")
            else:
                self._open(connection, pid, uid)

    def _open(self, connection: socket.socket, pid: int, uid: int) -> None:
        # A client that floods and never reads fills its own socket; then its link ends.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(_SEND_SECONDS), 0))
        channel = Channel(connection, self.limits.message_bytes)
        session = Session(self.limits, pid, uid, self._poller, self._ends, self._shares)
        with self._lock:
            full = self._full(pid, uid)
            is_refused = bool(full) and not self._has_spare()
            thread = BriefThread(partial(self._serve, channel, session, full), f"link-{session.id}")
            if not is_refused:
                self._links[session.id] = _OpenLink(session, channel, thread, bool(full))
        if is_refused:
            _log.warning("link refused: too many", client=session.title, reason=full)
            _refuse(connection, full)
            return
        self._clients.watch(session, connection, channel)
        try:
            thread.start()
        except RuntimeError as error:
            self._clients.forget(session)
            with self._lock:
                del self._links[session.id]
            _log.warning("link refused: no thread", owner=session.owner, reason=str(error))
            _refuse(connection, str(error))

    def _serve(self, channel: Channel, session: Session, full: str) -> None:
        """``full`` says why only an operator may have this link; empty if anybody may."""
        try:
            hello = self._greet(channel, _OPERATOR_HELLO_SECONDS if full else _HELLO_SECONDS)
            if full and not self._is_operator(session, hello.admin_key):
                raise _NoRoomError(full)
            session.client_name = hello.client_name[:_NAME_LENGTH]
            _log.debug("link opened", client=session.title)
            self._opened(session)
            channel.send(self._welcome(session, hello))
            while True:
                self._answer(channel, session)
        except ChannelClosedError:
            pass
        except (ProtocolError, _NoRoomError) as error:
            what = "ended: protocol error" if isinstance(error, ProtocolError) else "refused: too many"
            _log.warning(f"link {what}", client=session.title, reason=str(error))
            with contextlib.suppress(ChannelClosedError):
                channel.send(_refusal(str(error), fatal=True))
        finally:
            session.close()
            self._clients.forget(session)
            channel.close()
            with self._lock:
                del self._links[session.id]

    def _is_operator(self, session: Session, key: str) -> bool:
        return session.uid == os.geteuid() and is_admin_key(key, self._admin_keys)

    def _full(self, pid: int, uid: int) -> str:
        """Return why a process may open no further link; empty if it may. The caller holds the lock."""
        most, sessions = self.limits.sessions, [link.session for link in self._links.values() if not link.is_spare]
        if len(sessions) >= most:
            return f"{most} links are open, which is the limit"
        owned = sum(session.pid == pid for session in sessions)
        if pid > 0 and owned and most - len(sessions) <= most // _RESERVED:
            return f"process {pid} has {owned} links, and the last {most // _RESERVED} of {most} are for others"
        if uid not in (0, os.geteuid()) and sum(session.uid == uid for session in sessions) >= max(1, most // 2):
            return f"user {uid} has {max(1, most // 2)} links, which is as many as another user may have"
        return ""

    def _has_spare(self) -> bool:
        """Return whether an operator may have a link beyond the limits. The caller holds the lock."""
        return bool(self._admin_keys) and sum(link.is_spare for link in self._links.values()) < _OPERATORS

    def _greet(self, channel: Channel, seconds: float) -> wire.Hello:
        channel.set_timeout(seconds)
        try:
            request, descriptors = _receive(channel)
        except ChannelClosedError as error:
            if channel.hung_up:
                raise
            raise ProtocolError(f"no Hello came within {seconds:g} s") from error
        if request.WhichOneof("request") != "hello" or descriptors:
            raise ProtocolError("the first message of a link must be Hello")
        if request.hello.protocol_version != PROTOCOL_VERSION:
            raise ProtocolError(f"protocol version {request.hello.protocol_version}, expected {PROTOCOL_VERSION}")
        channel.set_timeout(None)
        return request.hello

    def _welcome(self, session: Session, hello: wire.Hello) -> bytes:
        known = {NUMBERED_ANSWERS, LENGTHS_BY_RUN} | ({CALLS} if self.open_calls is not None else set())
        return wire.LinkReply(
            welcome=wire.Welcome(
                session_token=session.token,
                max_message_bytes=self.limits.message_bytes,
                max_descriptors_per_message=self.limits.descriptors_per_message,
                max_descriptors_per_session=session.shares.descriptors.room(session.tenant),
                capabilities=known & {*hello.capabilities},
            )
        ).SerializeToString()

    def _answer(self, channel: Channel, session: Session) -> None:
        try:
            request, descriptors = _receive(channel)
        except NoDescriptorError as error:
            channel.send(_refusal(str(error), fatal=False, status=ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT))
            return
        kind = request.WhichOneof("request")
        expected = request.put.count if kind == "put" else 0
        if len(descriptors) != expected:
            raise ProtocolError(f"{len(descriptors)} descriptors came with a message that announces {expected}")
        try:
            reply, outgoing = self._handle(request, descriptors, session)
        except HalError as error:
            channel.send(_refusal(error.message, fatal=False, status=error.status))
            return
        channel.send(reply.SerializeToString(), outgoing)

    def _handle(
        self, request: wire.LinkRequest, descriptors: list[Descriptor], session: Session
    ) -> tuple[wire.LinkReply, list[Descriptor]]:
        match request.WhichOneof("request"):
            case "put":
                require_usable(descriptors, session.ends)
                with acting_for(tenant_from_wire(request.put.on_behalf_of).within(session.tenant)):
                    numbers = session.descriptors.put(descriptors)
                return wire.LinkReply(put=wire.PutDone(descriptor_ids=numbers)), []
            case "take":
                taken = session.descriptors.take(request.take.descriptor_id)
                return wire.LinkReply(take=wire.TakeDone()), [taken]
            case "drop":
                session.descriptors.drop(list(request.drop.descriptor_ids))
                return wire.LinkReply(drop=wire.DropDone()), []
            case "calls" if self.open_calls is not None:
                return wire.LinkReply(calls=wire.CallsOpened()), [self.open_calls(session)]
            case kind:
                raise ProtocolError(f"an unexpected message: {kind or 'empty'}")


def owner_in_words(pid: int) -> str:
    """Say which process is at the other end of a link. The kernel has no number for those of foreign PID namespaces."""
    return f"process {pid}" if pid > 0 else "another container"


def _listen(path: Path) -> socket.socket:
    remove_stale_socket(path, socket.SOCK_SEQPACKET)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(str(path))
        listener.listen(16)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen at {path}: {error.strerror}") from error
    return listener


def _receive(channel: Channel) -> tuple[wire.LinkRequest, list[Descriptor]]:
    message, descriptors = channel.receive_with_descriptors()
    try:
        return wire.LinkRequest.FromString(message), descriptors
    except DecodeError as error:
        raise ProtocolError(f"{len(message)} bytes that are not a LinkRequest") from error


def _refusal(message: str, fatal: bool, status: ErrorStatus = ErrorStatus.NONE) -> bytes:
    refusal = wire.Refusal(message=message, fatal=fatal, status=types_pb2.ErrorStatus.ValueType(status))
    return wire.LinkReply(refusal=refusal).SerializeToString()


def _refuse(connection: socket.socket, message: str) -> None:
    connection.setblocking(False)
    with contextlib.suppress(OSError):
        connection.send(_refusal(message, fatal=True))
        connection.shutdown(socket.SHUT_RD)
        connection.recv(MAX_MESSAGE_BYTES)  # a Hello left unread would reset the link before the refusal is seen
    connection.close()


def remove_stale_socket(path: Path, kind: socket.SocketKind) -> None:
    """Remove a socket file on which no process listens. Raises FileExistsError if one does."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except FileNotFoundError:
            return
        except BlockingIOError:  # its backlog is full
            pass
        except OSError as error:
            raise FileExistsError(f"something else is at {path}: {error.strerror}") from error
    raise FileExistsError(f"another process is serving at {path}")
