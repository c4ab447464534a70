from __future__ import annotations

import pytest

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, TransportError
from nnhal.link import Channel, channel_pair
from nnhal.link.channel import channel_from
from nnhal.types import ErrorStatus
from nnhal.v1 import burst_pb2, request_pb2, types_pb2
from nnhal.v1 import framework_pb2 as wire
from nnhal_client.direct import DirectBurst

GOOD = burst_pb2.BurstAnswer(result=request_pb2.ExecutionResult(output_sufficient_size=True)).SerializeToString()
SMALL = burst_pb2.BurstAnswer(result=request_pb2.ExecutionResult()).SerializeToString()
REFUSED = burst_pb2.BurstAnswer(
    status=types_pb2.ErrorStatus.ValueType(ErrorStatus.GENERAL_FAILURE), message="out of order"
).SerializeToString()


class FakeCalls:
    """Gives out one channel."""

    def __init__(self, theirs: Descriptor) -> None:
        self._theirs = theirs

    def take_channel(self, number: int) -> Channel:
        assert number == 5
        return channel_from(self._theirs)


def burst() -> tuple[DirectBurst, Channel]:
    """A burst, and the device's end of it."""
    device, theirs = channel_pair()
    message = wire.DirectBurst(channel_descriptor_id=5, execution=7, may_fall_back=True)
    return DirectBurst(FakeCalls(theirs), message), device  # type: ignore[arg-type]


def answered(made: DirectBurst, device: Channel, answer: bytes) -> object:
    """A run to which the device says so; what it returned."""
    exchanges = made.exchanges()
    channel, message = next(exchanges)
    channel.send(message)
    run = burst_pb2.BurstCall.FromString(device.receive()).run
    assert (run.execution, run.deadline_ns) == (7, -1)
    with pytest.raises(StopIteration) as end:
        exchanges.send(answer)
    return end.value.value


def test_a_run_is_one_datagram_each_way() -> None:
    made, device = burst()
    for _ in range(3):
        report = answered(made, device, GOOD)
        assert report.direct  # type: ignore[attr-defined]
        assert report.duration_ns > 0  # type: ignore[attr-defined]


def test_what_the_device_refuses_is_raised_and_the_next_run_may_be_good() -> None:
    made, device = burst()
    answered(made, device, GOOD)
    with pytest.raises(HalError, match="out of order") as caught:
        answered(made, device, REFUSED)
    assert caught.value.status == ErrorStatus.GENERAL_FAILURE
    answered(made, device, GOOD)


def test_an_output_that_does_not_fit_is_an_error() -> None:
    made, device = burst()
    with pytest.raises(HalError) as caught:
        answered(made, device, SMALL)
    assert caught.value.status == ErrorStatus.OUTPUT_INSUFFICIENT_SIZE


def test_garbage_is_no_answer() -> None:
    made, device = burst()
    with pytest.raises(TransportError, match="no BurstAnswer"):
        answered(made, device, b"\xff" * 9)
