"""Requests with a field at an extreme: the device answers, in words if it refuses, lives, and takes little memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from hypothesis import given
from hypothesis import strategies as st

from nnhal.endpoint import Endpoint
from nnhal.link.channel import MAX_MESSAGE_BYTES
from nnhal.v1 import burst_pb2, device_pb2, execution_pb2, link_pb2, types_pb2
from tests.support.extremes import Extreme, extremes
from tests.support.plain_words import require_plain
from tests.support.process_limits import memory_limit, peak_bytes
from tests.support.processes import own_device
from tests.support.raw_links import RawLink
from tests.support.searching import search
from tests.support.well_formed import Failure, WellFormed, device_methods, name_of

pytestmark = pytest.mark.slow

SPARE = 4 << 30
"""Of addresses: threads and their arenas take most of it."""
GROWTH = 256 << 20
MANY = 3_000
IN_A_DATAGRAM = 300
FOR_OPERATORS = {"EndSession", "Drain", "Exit", "SetLogLevel", "GetLogLines", "GetFigures", "MeasureOperations"}
"""Refused for want of a key, whatever the request says."""
METHODS = {name_of(method): method for method in device_methods() if method.name not in FOR_OPERATORS}


@pytest.fixture(scope="module", params=["cpu_ref", "cpu_acc"])
def abused(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """A device that may not have much memory, and is alive at the end."""
    with (
        own_device(request.param) as (child, endpoint),
        memory_limit(SPARE, child.pid),
    ):
        before = peak_bytes(child.pid)
        yield endpoint
        with WellFormed(endpoint) as session:
            assert session.answer(METHODS["DeviceService.GetType"], device_pb2.GetTypeRequest()) is None
        assert peak_bytes(child.pid) - before < GROWTH
        assert "Traceback" not in child.said()


@cache
def all_extremes(method: MethodDescriptor) -> list[Extreme]:
    return list(extremes(method.input_type, MANY))


def require_words(failure: Failure | None, cause: object) -> None:
    if failure is not None:
        if "invalid hardware buffer" not in failure.message:  # GENERAL_FAILURE, as the HAL recommends
            assert failure.status not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL), (failure, cause)
        require_plain(failure.message, cause)


@pytest.mark.parametrize("name", METHODS)
def test_a_field_at_an_extreme_is_answered_in_words(abused: Endpoint, name: str) -> None:
    with WellFormed(abused) as session:
        for extreme in all_extremes(METHODS[name]):
            request = extreme.applied(session.request_of(METHODS[name]))
            require_words(session.answer(METHODS[name], request), extreme)


def test_a_call_on_a_burst_at_an_extreme_is_answered_in_words(abused: Endpoint) -> None:
    with WellFormed(abused) as session:
        channel = session.open_burst()
        for extreme in extremes(burst_pb2.BurstCall.DESCRIPTOR, IN_A_DATAGRAM):
            call = extreme.applied(session.burst_call()).SerializeToString()
            if not 0 < len(call) <= MAX_MESSAGE_BYTES:
                continue
            channel.send(call)
            answer = burst_pb2.BurstAnswer.FromString(channel.receive())
            if "invalid hardware buffer" not in answer.message:
                assert answer.status != types_pb2.ERROR_STATUS_GENERAL_FAILURE, (answer.message, extreme)
            if answer.status:
                require_plain(answer.message, extreme)


def test_a_call_on_a_launch_channel_at_an_extreme_is_answered_in_words(abused: Endpoint) -> None:
    for extreme in extremes(execution_pb2.LaunchCall.DESCRIPTOR, IN_A_DATAGRAM):
        with WellFormed(abused) as session:
            call = extreme.applied(session.launch_call()).SerializeToString()
            channel = session.open_launch_channel()
            channel.send(call)
            answer = execution_pb2.LaunchAnswer.FromString(channel.receive_with_descriptors()[0])
            refused = answer.refused
            assert refused.status != types_pb2.ERROR_STATUS_GENERAL_FAILURE, (refused.message, extreme)
            if refused.status:
                require_plain(refused.message, extreme)


def test_a_request_on_a_link_at_an_extreme_is_answered_in_words(abused: Endpoint) -> None:
    for extreme in extremes(link_pb2.LinkRequest.DESCRIPTOR, IN_A_DATAGRAM):
        request = extreme.applied(link_pb2.LinkRequest()).SerializeToString()
        if not 0 < len(request) <= MAX_MESSAGE_BYTES:
            continue
        with RawLink(abused.link) as link:
            link.hello()
            link.send(request)
            reply = link.receive()
            assert reply is not None
            if reply.HasField("refusal"):
                require_plain(reply.refusal.message, extreme)


@search(30)
@given(data=st.data())
def test_several_fields_at_extremes_are_answered_in_words(abused: Endpoint, data: st.DataObject) -> None:
    method = METHODS[data.draw(st.sampled_from([name for name in METHODS if all_extremes(METHODS[name])]))]
    chosen = data.draw(st.lists(st.sampled_from(all_extremes(method)), min_size=2, max_size=4))
    with WellFormed(abused) as session:
        request = session.request_of(method)
        for extreme in chosen:
            extreme.apply(request)
        require_words(session.answer(method, request), [str(extreme) for extreme in chosen])
