"""The link: what it carries, what it refuses, and what ends it."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Sequence

from nnhal.descriptor import Descriptor
from nnhal.link.numbers import NUMBERED_ANSWERS
from nnhal.types import ErrorStatus
from nnhal.v1 import link_pb2 as wire
from nnhal.v1 import prepared_model_pb2
from nnhal_conformance.device import Subject
from nnhal_conformance.rule import FULL, BrokenRuleError, require, rule
from nnhal_conformance.session import RawLink, hello_of

GROUP = "link"
_PAGE = "reference/protocol.md"
_SESSION, _PUT, _LIMITS = f"{_PAGE}#a-session", f"{_PAGE}#what-can-be-put", f"{_PAGE}#limits"
_UNKNOWN = b"\xf8\x07\x01"
_FAR = 10**9


class Given:
    """An end of a pair to give away; the other end shows whether it is closed everywhere."""

    def __init__(self) -> None:
        self.kept, self.given = (Descriptor(end.detach()) for end in socket.socketpair())

    def fileno(self) -> int:
        """The number of the end that is given away."""
        return self.given.fileno()

    def require_closed(self, seconds: float) -> None:
        """Close the end here, and check that the device closes its copies."""
        self.given.close()
        if not select.select([self.kept], [], [], seconds)[0]:
            raise BrokenRuleError(f"the device held a descriptor for {seconds:g} s, expected that it closes it")


def _request(**fields: object) -> bytes:
    return wire.LinkRequest(**fields).SerializeToString()  # type: ignore[arg-type]


def _require_fatal(link: RawLink, message: bytes, descriptors: Sequence[int], what: str) -> None:
    """Check that a datagram is answered with a fatal refusal, after which the link ends."""
    link.send(message, descriptors)
    answer = link.receive()
    if answer is None:
        raise BrokenRuleError(f"{what}: the link ended without a word, expected a Refusal that is fatal")
    reply = wire.LinkReply.FromString(answer.message)
    require(
        reply.refusal.fatal and bool(reply.refusal.message),
        f"{what}: {' '.join(str(reply).split()) or 'an empty reply'}",
        "a Refusal that is fatal and says why",
    )
    link.require_end()


def _require_refusal(reply: wire.LinkReply, what: str, status: ErrorStatus | None = None) -> None:
    """Check that a request is refused with the reason, perhaps with a status, and that the link goes on."""
    said = reply.refusal
    require(
        bool(said.message) and not said.fatal and (status is None or ErrorStatus(said.status) == status),
        f"{what}: {' '.join(str(reply).split())}",
        f"a Refusal that says why{'' if status is None else f', with {status.name}'} and is not fatal",
    )


@rule(GROUP, _SESSION, "DV-01", "BA-01")
def hello(device: Subject) -> None:
    """Hello is answered with Welcome: a token that differs each time, and the limits of docs/reference/limits.md."""
    welcomes = [device.raw_link().welcome for _ in range(3)]
    tokens = [welcome.session_token for welcome in welcomes]
    require(all(tokens) and len(set(tokens)) == len(tokens), f"tokens {tokens}", "others for each session")
    for welcome in welcomes:
        limits = welcome.max_message_bytes, welcome.max_descriptors_per_message
        require(limits == (65_536, 16), f"limits of {limits}", "65536 bytes and 16 descriptors of a datagram")
        require(welcome.max_descriptors_per_session > 0, "0 descriptors of a session", "more than 0")


@rule(GROUP, "reference/protocol.md#channels")
def capabilities(device: Subject) -> None:
    """Welcome names no capability that Hello has not, and none that does not exist."""
    unknown = wire.LinkCapability.ValueType(1000)
    for given in ([], [unknown], [unknown, NUMBERED_ANSWERS]):
        got = list(device.raw_link(hello=False).ask(hello=hello_of(given)).welcome.capabilities)
        require(set(got) <= set(given) - {unknown}, f"capabilities {got} for {given}", "those that both sides have")


@rule(GROUP, _LIMITS)
def no_hello(device: Subject) -> None:
    """A link that does not begin with Hello of version 1 is refused and ends."""
    first = {
        "Put": _request(put=wire.Put(count=0)),
        "a message of an unknown kind": _UNKNOWN,
        "another protocol": b"GET / HTTP/1.1\r\n\r\n",
        "version 2": _request(hello=wire.Hello(protocol_version=2)),
        "no version": _request(hello=wire.Hello()),
        "an empty datagram": b"",
    }
    for what, message in first.items():
        _require_fatal(device.raw_link(hello=False), message, (), what)


@rule(GROUP, _LIMITS)
def malformed(device: Subject) -> None:
    """A datagram that is too long or empty, or does not parse, is answered with a fatal Refusal and ends the link."""
    broken = {
        "garbage": b"\xff" * 100,
        "a message of an unknown kind": _UNKNOWN,
        "a second Hello": _request(hello=wire.Hello(protocol_version=1)),
        "an empty datagram": b"",
        "65,537 bytes": bytes((1 << 16) + 1),
        "131,072 bytes": bytes(1 << 17),
    }
    for what, message in broken.items():
        _require_fatal(device.raw_link(), message, (), what)


@rule(GROUP, _LIMITS)
def other_number_of_descriptors(device: Subject) -> None:
    """Another number of descriptors than the message says ends the link, and all that came with it are closed."""
    cases = {
        "2 announced, 1 sent": (_request(put=wire.Put(count=2)), 1),
        "1 announced, 2 sent": (_request(put=wire.Put(count=1)), 2),
        "1 announced, none sent": (_request(put=wire.Put(count=1)), 0),
        "none announced, 1 sent": (_request(put=wire.Put(count=0)), 1),
        "4,294,967,295 announced": (_request(put=wire.Put(count=2**32 - 1)), 1),
        "a descriptor with Take": (_request(take=wire.Take(descriptor_id=1)), 1),
        "a descriptor with Drop": (_request(drop=wire.Drop(descriptor_ids=[1])), 1),
        "a descriptor with garbage": (b"\xff" * 100, 3),
        "17 descriptors": (_request(put=wire.Put(count=17)), 17),
        "200 descriptors": (_request(put=wire.Put(count=200)), 200),
    }
    given = Given()
    for what, (message, count) in cases.items():
        _require_fatal(device.raw_link(), message, [given.fileno()] * count, what)
    given.require_closed(device.seconds)


@rule(GROUP, _SESSION)
def put(device: Subject) -> None:
    """Put answers with an id for each descriptor, above 0 and never used twice; the link's end closes them."""
    link, given = device.raw_link(), Given()
    numbers = [number for _ in range(3) for number in link.put(*[given.fileno()] * 5)]
    link.drop(*numbers[:5])
    numbers += link.put(given.fileno())
    require(len(numbers) == 16 and min(numbers) > 0, f"ids {numbers}", "16 ids above 0")
    require(len(set(numbers)) == 16, f"ids {numbers}", "each once, dropped ones included")
    link.close()
    given.require_closed(device.seconds)


@rule(GROUP, _SESSION)
def drop(device: Subject) -> None:
    """Drop closes descriptors; ids that do not exist are ignored."""
    link, given = device.raw_link(), Given()
    (number,) = link.put(given.fileno())
    reply = link.drop(number, _FAR, number)
    require(reply.WhichOneof("reply") == "drop", " ".join(str(reply).split()), "DropDone")
    given.require_closed(device.seconds)


@rule(GROUP, _SESSION)
def take_what_is_not_there(device: Subject) -> None:
    """Take of an id that no call has named, or that the client has put, is refused, and the link goes on."""
    link, given = device.raw_link(), Given()
    (number,) = link.put(given.fileno())
    for what, asked in {"an unknown id": _FAR, "id 0": 0, "what was put": number}.items():
        _require_refusal(link.ask(take=wire.Take(descriptor_id=asked)), what)


@rule(GROUP, _SESSION)
def take_once(device: Subject) -> None:
    """A descriptor that a call has named is taken once, by its own session only."""
    held = device.prepare()
    message = prepared_model_pb2.ConfigureExecutionBurstRequest(prepared_model=held.handle)
    number = held.session.call(held.session.prepared_model.ConfigureExecutionBurst, message).channel_descriptor_id
    _require_refusal(device.raw_link().ask(take=wire.Take(descriptor_id=number)), "another session")
    held.session.take_socket(number, "the burst's channel")
    _require_refusal(held.session.link.ask(take=wire.Take(descriptor_id=number)), "the second time")


@rule(GROUP, _LIMITS)
def descriptors_of_a_session(device: Subject) -> None:
    """More descriptors than Welcome allows are refused with RESOURCE_EXHAUSTED_TRANSIENT, until some are dropped."""
    link, given = device.raw_link(), Given()
    most = left = link.welcome.max_descriptors_per_session
    numbers = list[int]()
    if left > 1 << 16:
        return
    while left:
        count = min(16, left)
        numbers += link.put(*[given.fileno()] * count)
        left -= count
    for _ in range(most):  # others may have given some back meanwhile
        answer = link.ask([given.fileno()], put=wire.Put(count=1))
        if answer.WhichOneof("reply") != "put":
            break
    _require_refusal(answer, "one more", FULL)
    link.drop(numbers[0])
    link.put(given.fileno())


def _datagrams() -> int:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.close()
    return theirs.detach()


def _unconnected() -> int:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).detach()


def _an_epoll() -> int:
    with select.epoll() as made:
        return os.dup(made.fileno())


_STRANGE: dict[str, Callable[[], int]] = {
    "a socket of type SOCK_DGRAM": _datagrams,
    "a socket that is not connected": _unconnected,
    "an epoll": _an_epoll,
    "an eventfd": lambda: os.eventfd(0),
}


@rule(GROUP, _PUT)
def strange_descriptors(device: Subject) -> None:
    """Put refuses what could keep a link open: links, unconnected sockets, SOCK_DGRAM, epoll, eventfd."""
    link = device.raw_link()
    other = device.raw_link()
    kinds: dict[str, Callable[[], int]] = {**_STRANGE, "a link": lambda: os.dup(other.fileno())}
    for what, make in kinds.items():
        number = make()
        try:
            _require_refusal(link.ask([number], put=wire.Put(count=1)), what)
        finally:
            os.close(number)


@rule(GROUP, _LIMITS)
def never_reading(device: Subject) -> None:
    """A client that sends without reading ends its own link at most; other sessions go on."""
    link = device.raw_link()
    message = _request(drop=wire.Drop(descriptor_ids=[1]))
    with socket.socket(fileno=os.dup(link.fileno())) as sending:
        sending.settimeout(0.2)
        try:
            for _ in range(100_000):
                sending.send(message)
        except OSError:  # the device has ended the link, or reads no more of it
            pass
    device.require_alive()
