"""The client's end of a link."""

from __future__ import annotations

import socket
import struct
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from google.protobuf.message import DecodeError

from nnhal.contexts import Closing
from nnhal.descriptor import Descriptor
from nnhal.endpoint import SERVER_UIDS, Endpoint, server_uids
from nnhal.errors import DeadObjectError, HalError, TransportError
from nnhal.link.channel import (
    MAX_DESCRIPTORS_PER_MESSAGE,
    Channel,
    ChannelClosedError,
    ProtocolError,
    channel_from,
    peer_credentials,
)
from nnhal.link.numbers import LENGTHS_BY_RUN, NUMBERED_ANSWERS
from nnhal.link.tenants import tenant_to_wire
from nnhal.shares import tenant
from nnhal.types import ErrorStatus
from nnhal.v1 import link_pb2 as wire

SESSION_METADATA = "nnhal-session"
PROTOCOL_VERSION = 1
ANSWER_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_SHOWN, _SAID = 20, 300


class Link(Closing):
    """An open link: a session with the process that serves at ``path``. Safe to use from several threads.

    Closing it releases everything that the session owns in that process.
    """

    def __init__(
        self,
        path: Path,
        client_name: str = "nnhal",
        answer_seconds: float = ANSWER_SECONDS,
        admin_key: str = "",
    ) -> None:
        """Connect and send Hello. Each answer may take ``answer_seconds``. An operator has the process's admin key.

        Raises DeadObjectError if no process listens or answers, TransportError if it refuses, or is another user's.
        """
        self.path = path
        self._lock = threading.Lock()
        self._ids: weakref.WeakKeyDictionary[Descriptor, int] = weakref.WeakKeyDictionary()
        self._garbage: deque[int] = deque()
        self._issued: set[int] = set()
        """The ids of descriptors that are issued."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # SO_SNDTIMEO bounds connecting as well, which waits while the process's backlog is full. With a timeout of
        # Python's the socket would be non-blocking, and connecting would fail at once.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(answer_seconds))
        try:
            connection.connect(str(path))
        except OSError as error:
            connection.close()
            trouble = Endpoint(path.parent).trouble
            said = f"{error.strerror}; {trouble}" if trouble else error.strerror
            raise DeadObjectError(f"no link at {path}: {said}") from error
        _, uid = peer_credentials(connection)
        if uid not in {0, *server_uids()}:
            connection.close()
            raise TransportError(
                f"{path}: served by user {uid}, expected this one, root, or one of the variable {SERVER_UIDS}"
            )
        self._channel = Channel(connection)
        self._channel.set_timeout(answer_seconds)
        self._answer_seconds, self._is_left = answer_seconds, False
        try:
            reply, _ = self._exchange(
                wire.LinkRequest(
                    hello=wire.Hello(
                        protocol_version=PROTOCOL_VERSION,
                        client_name=client_name,
                        admin_key=admin_key,
                        capabilities=[NUMBERED_ANSWERS, LENGTHS_BY_RUN],
                    )
                )
            )
        except BaseException:
            self._channel.close()
            raise
        self.session_token = reply.welcome.session_token
        self._per_message = min(reply.welcome.max_descriptors_per_message, MAX_DESCRIPTORS_PER_MESSAGE)
        if not (
            self._per_message
            and self.session_token
            and self.session_token.isascii()
            and self.session_token.isprintable()
        ):
            self._channel.close()
            raise TransportError(f"{path}: a Welcome without a token, or for no descriptors: {reply.welcome}"[:_SAID])
        self.numbers_answers = NUMBERED_ANSWERS in reply.welcome.capabilities
        """True if answers on the session's channels carry the numbers of their calls."""
        self.has_lengths_by_run = LENGTHS_BY_RUN in reply.welcome.capabilities
        """True if runs may give lengths of inputs."""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata that gRPC calls of this session carry."""
        return ((SESSION_METADATA, self.session_token),)

    @property
    def hung_up(self) -> bool:
        """Return whether the other process has ended the link or is gone."""
        return self._channel.hung_up

    @property
    def peer_pid(self) -> int:
        return self._channel.peer_pid

    @property
    def socket_bytes(self) -> int:
        return self._channel.traffic.total

    def issue(self, descriptor: Descriptor) -> int:
        """Return a descriptor's id in the other process. Put it at the first call, and drop it once it is gone here."""
        with self._lock:
            number = self._ids.get(descriptor)
            if number is None:
                (number,) = self._put([descriptor])
                self._ids[descriptor] = number
                self._issued.add(number)
                weakref.finalize(descriptor, self._garbage.append, number)
            return number

    def put(self, descriptors: Sequence[Descriptor]) -> list[int]:
        """Hand over descriptors and return their ids. They stay open until they are dropped. Raises TransportError."""
        with self._lock:
            numbers = []
            for start in range(0, len(descriptors), self._per_message):
                numbers += self._put(descriptors[start : start + self._per_message])
            return numbers

    def drop(self, numbers: Sequence[int]) -> None:
        """Have the other process close descriptors that were put."""
        with self._lock:
            self._garbage += numbers
            if dropping := self._dropping():
                self._exchange(*dropping)

    def take(self, number: int) -> Descriptor:
        """Fetch the descriptor that a call has named. Raises TransportError."""
        with self._lock:
            _, descriptors = self._exchange(wire.LinkRequest(take=wire.Take(descriptor_id=number)))
        if len(descriptors) != 1:
            raise TransportError(f"{self.path}: {len(descriptors)} descriptors came with descriptor {number}")
        return descriptors[0]

    def take_channel(self, number: int) -> Channel:
        """Fetch the channel whose descriptor a call has named. Raises TransportError."""
        return channel_from(self.take(number))

    def leave(self) -> None:
        """End the session without waiting: the link hangs up once the other process has released it.

        A thread that waits for an answer waits no longer.
        """
        self._is_left = True
        self._channel.end_sending()

    def close(self) -> None:
        """End the session. Further calls have no effect."""
        self._channel.close()

    def _put(self, descriptors: Sequence[Descriptor]) -> list[int]:
        """Hand over descriptors, behind a notice of those that can be dropped, which is not waited for alone."""
        put = wire.LinkRequest(put=wire.Put(count=len(descriptors), on_behalf_of=tenant_to_wire(tenant())))
        reply, _ = self._exchange(*self._dropping(), put, descriptors=descriptors)
        numbers = list(reply.put.descriptor_ids)
        if not len(numbers) == len({*numbers} - self._issued - {0}) == len(descriptors):
            self._channel.close()
            ids = f"{len(descriptors)} descriptors were put under the ids {numbers[:_SHOWN]}"
            said = f"{self.path}: {ids}, expected as many that are new and above 0"
            raise TransportError(said) from ProtocolError(said)
        return numbers

    def _dropping(self) -> list[wire.LinkRequest]:
        """The request to drop what is gone here, if anything is."""
        numbers = []
        while self._garbage:  # a finaliser may append to it at any moment
            numbers.append(self._garbage.popleft())
        self._issued.difference_update(numbers)
        return [wire.LinkRequest(drop=wire.Drop(descriptor_ids=numbers))] if numbers else []

    def _exchange(
        self, *requests: wire.LinkRequest, descriptors: Sequence[Descriptor] = ()
    ) -> tuple[wire.LinkReply, list[Descriptor]]:
        """Send requests, the last with ``descriptors``, and return the answer to the last."""
        expected: str = requests[-1].WhichOneof("request") or ""
        expected = "welcome" if expected == "hello" else expected
        try:
            try:
                if self._channel.wait(0):  # the end of the link, with a last word perhaps
                    expected = "refusal"
                    message, received = self._channel.receive_with_descriptors()
                else:
                    for request in requests[:-1]:
                        self._channel.send(request.SerializeToString())
                    self._channel.send(requests[-1].SerializeToString(), descriptors)
                    for _ in requests:
                        self._await_answer()
                        message, received = self._channel.receive_with_descriptors()
            except ChannelClosedError:
                last = self._last_words()
                if last is None:
                    raise
                message, received = last
            reply = wire.LinkReply.FromString(message)
            kind = reply.WhichOneof("reply")
            if kind not in (expected, "refusal"):
                raise ProtocolError(f"the other side has answered with {kind or 'nothing'}, expected {expected}")
        except ChannelClosedError as error:
            self._channel.close()  # a late answer must not be taken for the next request's
            raise DeadObjectError(f"{self.path}: {error}") from error
        except (ProtocolError, DecodeError) as error:
            self._channel.close()
            raise TransportError(f"{self.path}: {error}") from error
        if kind == "refusal":
            if reply.refusal.status:
                raise HalError(ErrorStatus(reply.refusal.status), reply.refusal.message)
            raise TransportError(f"{self.path}: {reply.refusal.message}")
        return reply, received

    def _await_answer(self) -> None:
        """Wait until there is something to receive. Raises ChannelClosedError if that takes too long, and
        DeadObjectError after ``leave``.

        Another thread cannot wake one that receives: to shut this end's direction down would look as if the other
        process had hung up.
        """
        ends = time.monotonic() + self._answer_seconds
        while not self._channel.wait(_LOOK_SECONDS):
            if self._is_left:
                raise DeadObjectError(f"{self.path}: the session was given up")
            if time.monotonic() > ends:
                raise ChannelClosedError(f"the other side has not answered for {self._answer_seconds:g} s")

    def _last_words(self) -> tuple[bytes, list[Descriptor]] | None:
        """The other side's last answer, if any: a refusal may still wait in the socket after an error on sending."""
        last = None
        with suppress(ChannelClosedError, OSError):  # OSError: this side has closed it
            self._channel.set_timeout(0)
            while True:
                last = self._channel.receive_with_descriptors()
        return last


def _timeval(seconds: float) -> bytes:
    return struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
