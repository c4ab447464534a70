"""Descriptors that a device has offered and nobody has taken go with what they belong to."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from nnhal.descriptor import Descriptor
from nnhal.types import NO_DEADLINE
from nnhal.v1 import backend_pb2, burst_pb2, execution_pb2
from nnhal.v1 import fenced_execution_callback_pb2 as callback_pb2
from nnhal.v1 import prepared_model_pb2 as prepared_pb2
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.wire import WireDevice

Release = Callable[[], object]


class Client:
    """A client that takes nothing of what it is offered."""

    def __init__(self, wire: WireDevice) -> None:
        self.wire = wire
        self._prepared = wire.prepare(addition_model())
        self._addition = addition_in_ashmem()
        self._request = wire.request(self._addition.request)
        self._execution = self._execution_of()
        self.held = self.holds()

    def holds(self) -> int:
        """Return how many descriptors the device holds in all sessions."""
        return self.wire.call(self.wire.backend.GetUsage, backend_pb2.GetUsageRequest()).descriptors

    def burst(self) -> tuple[int, Release]:
        """Make a burst; return the offer, and what releases it."""
        request = prepared_pb2.ConfigureExecutionBurstRequest(prepared_model=self._prepared)
        made = self.wire.call(self.wire.prepared_model.ConfigureExecutionBurst, request)
        release = burst_pb2.BurstServiceReleaseRequest(burst=made.burst)
        return made.channel_descriptor_id, lambda: self.wire.call(self.wire.burst.Release, release)

    def launch(self) -> tuple[int, Release]:
        """Launch an execution."""
        request = prepared_pb2.PreparedModelServiceExecuteFencedRequest(
            prepared_model=self._prepared,
            request=self._request,
            deadline_ns=NO_DEADLINE,
            loop_timeout_duration_ns=-1,
            duration_ns=NO_DEADLINE,
        )
        made = self.wire.call(self.wire.prepared_model.ExecuteFenced, request).result
        release = callback_pb2.FencedExecutionCallbackServiceReleaseRequest(callback=made.callback)
        return made.sync_fence_descriptor_id, lambda: self.wire.call(self.wire.callback.Release, release)

    def run_channel(self) -> tuple[int, Release]:
        """Open a run channel for an execution of its own."""
        execution = self._execution_of()
        number = self._open(execution)
        release = execution_pb2.ExecutionServiceReleaseRequest(execution=execution)
        return number, lambda: self.wire.call(self.wire.execution.Release, release)

    def closed_run_channel(self) -> tuple[int, Release]:
        """Open a run channel that is closed, and whose execution stays."""
        number = self._open(self._execution)
        close = execution_pb2.GetRunChannelUsageRequest(execution=self._execution, close=True)
        return number, lambda: self.wire.call(self.wire.execution.GetRunChannelUsage, close)

    def replaced_run_channel(self) -> tuple[int, Release]:
        """Open a run channel that another one replaces, which is taken."""
        number = self._open(self._execution)
        return number, lambda: self.wire.take_channel(self._open(self._execution))

    def launch_channel(self) -> tuple[int, Release]:
        """Open a launch channel, which can only be dropped."""
        made = self.wire.call(self.wire.execution.OpenLaunchChannel, execution_pb2.OpenLaunchChannelRequest())
        return made.channel_descriptor_id, lambda: self.wire.link.drop([made.channel_descriptor_id])

    def _execution_of(self) -> int:
        request = prepared_pb2.CreateReusableExecutionRequest(prepared_model=self._prepared, request=self._request)
        request.config.loop_timeout_duration_ns = -1
        return self.wire.call(self.wire.prepared_model.CreateReusableExecution, request).execution

    def _open(self, execution: int) -> int:
        request = execution_pb2.OpenRunChannelRequest(execution=execution)
        return self.wire.call(self.wire.execution.OpenRunChannel, request).channel_descriptor_id


OFFERS = [
    Client.burst,
    Client.launch,
    Client.run_channel,
    Client.closed_run_channel,
    Client.replaced_run_channel,
    Client.launch_channel,
]


@pytest.fixture
def client(wire: WireDevice) -> Client:
    return Client(wire)


@pytest.mark.parametrize("offer", OFFERS)
def test_what_is_released_takes_its_untaken_descriptors_along(
    client: Client, offer: Callable[[Client], tuple[int, Release]]
) -> None:
    for _ in range(3):
        _, release = offer(client)
        assert client.holds() == client.held + 1
        release()
        assert client.holds() == client.held


@pytest.mark.parametrize("offer", OFFERS)
def test_an_offer_can_be_dropped_and_then_be_released(
    client: Client, offer: Callable[[Client], tuple[int, Release]]
) -> None:
    number, release = offer(client)
    client.wire.link.drop([number])
    assert client.holds() == client.held
    release()
    assert client.holds() == client.held


def test_launches_that_are_released_leave_no_descriptors(client: Client) -> None:
    for _ in range(300):
        _, release = client.launch()
        release()
    assert client.wire.link.put([Descriptor(os.memfd_create("one more"))])
