"""Messages and descriptors that come over sockets: links, bursts, run and launch channels, bells."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

from nnhal.errors import HalError
from nnhal.link import ProtocolError
from nnhal.v1 import burst_pb2, chain_pb2, link_pb2, types_pb2
from nnhal_devices.host.channels.messages import (
    Gathering,
    RunCalls,
    encode_chain_answer,
    failed_step,
    parse_call,
    parse_rings,
)
from nnhal_hosting.link_server import LinkServer
from tests.fuzz.mutators.messages import MessageMutator
from tests.fuzz.mutators.octets import mutate_octets
from tests.fuzz.target import FindingError, FuzzTarget, Mutate, scratch_folder
from tests.support.raw_links import RawLink

_FRAME = struct.Struct("<BH")
"""How many descriptors a datagram has, and how many bytes."""
_DESCRIPTORS = 20
_EXECUTION = 7


def frames(*datagrams: tuple[bytes, int]) -> bytes:
    """Several datagrams, each with a number of descriptors, as one input."""
    return b"".join(_FRAME.pack(count, len(data)) + data for data, count in datagrams)


def framed(data: bytes) -> Iterator[tuple[bytes, int]]:
    place = 0
    while place + _FRAME.size <= len(data):
        count, length = _FRAME.unpack_from(data, place)
        place += _FRAME.size
        yield data[place : place + length], count % _DESCRIPTORS
        place += length


def mutate_frames(mutate: Mutate) -> Mutate:
    """Mutate one of several datagrams, or their order, or the number of their descriptors."""

    def mutated(data: bytes, source: Random) -> bytes:
        found = list(framed(data))
        if not found or source.random() < 0.1:
            return mutate_octets(data, source)
        first, second = source.randrange(len(found)), source.randrange(len(found))
        message, count = found[first]
        match source.randrange(6):
            case 0:
                found[first] = (message, source.choice((0, 1, 2, 16, 17)))
            case 1:
                found[first], found[second] = found[second], found[first]
            case 2:
                found.insert(second, found[first])
            case 3:
                del found[first]
            case _:
                found[first] = (mutate(message, source)[:0xFFFF], count)
        return frames(*found)

    return mutated


@cache
def _server() -> tuple[Path, int]:
    folder = scratch_folder()
    server = LinkServer(folder / "link.sock", lambda _: None)
    server.start()
    return folder / "link.sock", os.memfd_create("fuzz")


def _link(data: bytes) -> None:
    talk(data, *_server())


def talk(data: bytes, path: Path, descriptor: int) -> None:
    """Send datagrams with copies of a descriptor to a link server: each is answered, or the link ends."""
    with RawLink(path) as link, suppress(BrokenPipeError, ConnectionResetError):
        for message, count in framed(data):
            if not message:  # as the end of the link
                return
            link.send(message, [descriptor] * count)
            reply = link.receive()
            if reply is None:
                return
            if reply.WhichOneof("reply") is None:
                raise FindingError("an empty reply")
            if reply.HasField("refusal") and reply.refusal.fatal:
                raise ProtocolError(reply.refusal.message)


def _link_seeds() -> Iterator[bytes]:
    def request(**kind: object) -> bytes:
        return link_pb2.LinkRequest(**kind).SerializeToString()  # type: ignore[arg-type]

    hello = request(hello=link_pb2.Hello(protocol_version=1, client_name="fuzz"))
    put, take, drop = link_pb2.Put(count=2), link_pb2.Take(descriptor_id=1), link_pb2.Drop(descriptor_ids=[1, 2])
    yield frames((hello, 0))
    yield frames((hello, 0), (request(put=put), 2), (request(drop=drop), 0), (request(take=take), 0))


def _run_call(data: bytes) -> None:
    RunCalls(_EXECUTION).deadline_of(data)


def _burst_call(data: bytes) -> None:
    parse_call(data)


def _run_call_seeds() -> Iterator[bytes]:
    for deadline in (-1, 0, 10**18):
        run = burst_pb2.BurstRun(execution=_EXECUTION, deadline_ns=deadline)
        yield burst_pb2.BurstCall(run=run).SerializeToString()


def _ring(data: bytes) -> None:
    gathering, whole = Gathering(2), False
    for bell, (message, _) in enumerate(framed(data)):
        rings = gathering.add(bell % 2, message)
        if rings:
            ring = parse_rings(rings)
            failed_step(ring)
            encode_chain_answer(ring)
            whole = True
    if not whole:
        raise ProtocolError("a bell has not rung")


def _ring_seeds() -> Iterator[bytes]:
    first = chain_pb2.Ring(run=5, deadline_ns=-1)
    failed = burst_pb2.BurstAnswer(status=types_pb2.ERROR_STATUS_GENERAL_FAILURE, message="no")
    second = chain_pb2.Ring(run=5, deadline_ns=-1, steps=[burst_pb2.StepAnswer(step=1, answer=failed)])
    for each in (first, second):
        yield frames((first.SerializeToString(), 0), (each.SerializeToString(), 0))


TARGETS = (
    FuzzTarget("link", _link, (ProtocolError,), _link_seeds, mutate_frames(MessageMutator(link_pb2.LinkRequest))),
    FuzzTarget(
        "run_channel", _run_call, (ProtocolError, HalError), _run_call_seeds, MessageMutator(burst_pb2.BurstCall)
    ),
    FuzzTarget("bell", _ring, (ProtocolError,), _ring_seeds, mutate_frames(MessageMutator(chain_pb2.Ring))),
)
