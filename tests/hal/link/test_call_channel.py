from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from nnhal.descriptor import Descriptor
from nnhal.link import CallChannel, Channel, ChannelClosedError, ProtocolError, channel_pair
from nnhal.link.call_channel import call_channel_from
from nnhal.link.numbers import CallNumbers, number_field
from nnhal.v1 import burst_pb2

CALL = burst_pb2.BurstCall(run=burst_pb2.BurstRun(execution=7)).SerializeToString()
ANSWER = burst_pb2.BurstAnswer(message="done").SerializeToString()
Pair = tuple[CallChannel, Channel]


@pytest.fixture(params=[False, True], ids=["without numbers", "with numbers"])
def is_numbered(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def pair(is_numbered: bool) -> Iterator[Pair]:
    theirs, descriptor = channel_pair()
    ours = call_channel_from(descriptor, is_numbered)
    yield ours, theirs
    ours.close()
    theirs.close()


def exchange(pair: Pair) -> bytes:
    """Make a call, which the other side answers as hosts do."""
    ours, theirs = pair
    ours.send(CALL)
    call, number = CallNumbers().split(theirs.receive())
    assert call == CALL
    theirs.send(ANSWER + number)
    return ours.receive()


def test_calls_are_answered(pair: Pair) -> None:
    assert [exchange(pair) for _ in range(3)] == [ANSWER] * 3


@pytest.mark.parametrize("is_numbered", [False])
@pytest.mark.parametrize("descriptors", [False, True], ids=["alone", "with descriptors"])
def test_what_is_there_before_a_call_ends_the_channel(pair: Pair, descriptors: bool) -> None:
    ours, theirs = pair
    exchange(pair)
    theirs.send(ANSWER, [Descriptor(os.memfd_create("test"))] if descriptors else [])
    with pytest.raises(ProtocolError, match=f"has sent {len(ANSWER)} bytes that no call has asked for"):
        ours.send(CALL)
    with pytest.raises(ChannelClosedError):
        theirs.receive()
    with pytest.raises(ChannelClosedError):
        ours.send(CALL)


@pytest.mark.parametrize("is_numbered", [False])
def test_an_answer_before_the_end_of_a_channel_is_not_taken_for_that_of_the_next_call(pair: Pair) -> None:
    ours, theirs = pair
    theirs.send(ANSWER)
    theirs.end_sending()
    with pytest.raises(ProtocolError, match="no call has asked for"):
        ours.send(CALL)


@pytest.mark.parametrize("is_numbered", [True])
def test_a_numbered_answer_that_came_twice_ends_the_channel_at_the_next_answer(pair: Pair) -> None:
    _, theirs = pair
    exchange(pair)
    theirs.send(ANSWER + number_field(1))
    with pytest.raises(ProtocolError, match="has answered call 2 with number 1"):
        exchange(pair)


@pytest.mark.parametrize("end", [Channel.close, Channel.end_sending])
def test_a_call_on_a_channel_that_has_been_closed_says_so(pair: Pair, end: Callable[[Channel], None]) -> None:
    ours, theirs = pair
    end(theirs)
    with pytest.raises(ChannelClosedError):
        ours.send(CALL)
        ours.receive()


@pytest.mark.parametrize("is_numbered", [True])
@pytest.mark.parametrize(
    ("answer", "said"),
    [(ANSWER, "no number"), (ANSWER + number_field(1), "number 1"), (b"\xff" * 20, "no number")],
    ids=["none", "that of the call before", "malformed"],
)
def test_an_answer_with_another_number_ends_the_channel(pair: Pair, answer: bytes, said: str) -> None:
    ours, theirs = pair
    exchange(pair)
    ours.send(CALL)
    theirs.send(answer)
    with pytest.raises(ProtocolError, match=f"has answered call 2 with {said}"):
        ours.receive()
    with pytest.raises(ChannelClosedError):
        ours.send(CALL)


@pytest.mark.parametrize("is_numbered", [True])
def test_the_number_of_an_answer_need_not_be_last(pair: Pair) -> None:
    ours, theirs = pair
    ours.send(CALL)
    theirs.send(number_field(1) + ANSWER)
    assert burst_pb2.BurstAnswer.FromString(ours.receive()) == burst_pb2.BurstAnswer(message="done", number=1)
