"""Requests with a field at an extreme: answered in words, at the cost of little memory.

They go to devices, to a device from another host, and to a framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from types import TracebackType
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from nnhal.codec import model_to_wire
from nnhal.endpoint import Endpoint
from nnhal.link.channel import MAX_MESSAGE_BYTES
from nnhal.v1 import burst_pb2, execution_pb2, link_pb2, types_pb2, wire_pb2
from nnhal_devices.wire import SESSION_TOKEN_METADATA
from nnhal_hosting.supervision import Child
from tests.support.additions import addition_model
from tests.support.extremes import Extreme, extremes
from tests.support.model_server import Devices, model_server
from tests.support.plain_words import require_plain
from tests.support.process_limits import memory_limit, peak_bytes
from tests.support.processes import own_device
from tests.support.raw_links import RawLink
from tests.support.searching import search
from tests.support.served_models import echo, write_models
from tests.support.waiting import wait_until
from tests.support.well_formed import DEVICE_METHODS, Failure, WellFormed, answer, methods_of, name_of
from tests.support.well_formed_framework import FRAMEWORK_METHODS, WellFormedFramework

pytestmark = pytest.mark.slow

SPARE = 6 << 30
"""Addresses that a process may have beyond those that it takes: threads and their arenas take most."""
GROWTH = 256 << 20
IN_A_DATAGRAM = 300
PER_SESSION = 100
MODEL = echo("FP32")


class RemoteSession:
    """A session of another host, which a device's connection serves as it is: without TLS, and for every client."""

    def __init__(self, endpoint: Endpoint, address: str) -> None:
        del endpoint
        self._channel = grpc.insecure_channel(address)
        call: Any = self._channel.unary_stream(
            f"/{OPEN.containing_service.full_name}/{OPEN.name}",
            wire_pb2.OpenSessionRequest.SerializeToString,
            wire_pb2.OpenSessionResponse.FromString,
        )
        self._opened = call(wire_pb2.OpenSessionRequest(protocol_version=1, client_name="test"))
        self._metadata = ((SESSION_TOKEN_METADATA, next(iter(self._opened)).session_token),)

    def request_of(self, method: MethodDescriptor) -> Message:
        request: Any = GetMessageClass(method.input_type)()
        if "model" in method.input_type.fields_by_name:
            request.model.model.CopyFrom(model_to_wire(addition_model(), lambda _: 0))
        made: Message = request
        return made

    def answer(self, method: MethodDescriptor, request: Message) -> Failure | None:
        return answer(self._channel, method, request, self._metadata)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> RemoteSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


Session = WellFormed | WellFormedFramework | RemoteSession


@dataclass(frozen=True)
class Tier:
    """A kind of process."""

    methods: Mapping[str, MethodDescriptor]
    """What can be called."""
    session: Callable[[Endpoint, str], Session]
    """Opens a session that has one object of each kind, at an endpoint or an address."""
    many: int
    """Most elements of a list, and bytes of a text."""
    options: tuple[str, ...] = ()
    """Of a device."""

    def extremes_of(self, name: str) -> list[Extreme]:
        return _extremes_of(self.methods[name], FEW if name in LENGTHY else self.many)


@cache
def _extremes_of(method: MethodDescriptor, many: int) -> list[Extreme]:
    return list(extremes(method.input_type, many))


WIRE_METHODS = {name_of(method): method for method in methods_of(wire_pb2)}
OPEN = WIRE_METHODS["WireService.OpenSession"]
LENGTHY, FEW = {"WireService.Prepare"}, 10
"""Calls whose models cost the device milliseconds: their lists get few entries."""
DEVICE = Tier(DEVICE_METHODS, lambda endpoint, _: WellFormed(endpoint), 3_000)
FRAMEWORK = Tier(FRAMEWORK_METHODS, lambda endpoint, _: WellFormedFramework(endpoint, MODEL), 1_000)
REMOTE = Tier(
    {name: method for name, method in WIRE_METHODS.items() if method is not OPEN},
    RemoteSession,
    1_000,
    ("--listen", "127.0.0.1:0"),
)
TIERS = {"cpu_ref": DEVICE, "cpu_acc": DEVICE, "framework": FRAMEWORK, "remote": REMOTE}


@dataclass(frozen=True)
class Abused:
    """A process that is asked."""

    tier: Tier
    endpoint: Endpoint
    address: str

    def session(self) -> Session:
        return self.tier.session(self.endpoint, self.address)


@pytest.fixture(scope="module")
def abused(
    request: pytest.FixtureRequest, device_processes: Devices, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Abused]:
    """A process that may not have much memory, and serves at the end."""
    tier, address = TIERS[request.param], ""
    with ExitStack() as stack:
        if tier is FRAMEWORK:
            repository = write_models(tmp_path_factory.mktemp("repository"))
            served = stack.enter_context(model_server(device_processes, repository))
            child: Child = served.child
            pid, endpoint = served.pid, served.endpoint
        else:
            driver = "cpu_ref" if tier is REMOTE else request.param
            child, endpoint = stack.enter_context(own_device(driver, *tier.options))
            pid = child.pid
        if tier is REMOTE:
            wait_until(lambda: "wire: " in child.said(), "the device says where it listens")  # its lines come late
            address = child.said().partition("wire: ")[2].split()[0]
        stack.enter_context(memory_limit(SPARE, pid))
        before = peak_bytes(pid)
        found = Abused(tier, endpoint, address)
        yield found
        found.session().close()
        assert peak_bytes(pid) - before < GROWTH
        assert "Traceback" not in child.said()


every_tier = partial(pytest.mark.parametrize, "abused", indirect=True)
devices = every_tier(["cpu_ref", "cpu_acc"])


def require_words(failure: Failure | None, cause: object) -> None:
    if failure is not None:
        if "invalid hardware buffer" not in failure.message:  # GENERAL_FAILURE, as the HAL recommends
            assert failure.status not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL), (failure, cause)
        require_plain(failure.message, cause)


CASES = [(kind, name) for kind, tier in TIERS.items() for name in tier.methods]


@pytest.mark.parametrize(("abused", "name"), CASES, indirect=["abused"])
def test_a_field_at_an_extreme_is_answered_in_words(abused: Abused, name: str) -> None:
    tier = abused.tier
    found, method = tier.extremes_of(name), tier.methods[name]
    for start in range(0, len(found), PER_SESSION):
        with abused.session() as session:
            for extreme in found[start : start + PER_SESSION]:
                require_words(session.answer(method, extreme.applied(session.request_of(method))), extreme)


@every_tier(list(TIERS))
@search(25)
@given(data=st.data())
def test_several_fields_at_extremes_are_answered_in_words(abused: Abused, data: st.DataObject) -> None:
    tier = abused.tier
    name = data.draw(st.sampled_from([each for each in tier.methods if tier.extremes_of(each)]))
    chosen = data.draw(st.lists(st.sampled_from(tier.extremes_of(name)), min_size=2, max_size=4))
    with abused.session() as session:
        request = session.request_of(tier.methods[name])
        for extreme in chosen:
            extreme.apply(request)
        require_words(session.answer(tier.methods[name], request), [str(extreme) for extreme in chosen])


@every_tier(["remote"])
def test_a_session_of_another_version_is_refused_with_both_versions(abused: Abused) -> None:
    with abused.session() as session:
        failure = session.answer(OPEN, wire_pb2.OpenSessionRequest(protocol_version=2, client_name="test"))
    assert failure == (grpc.StatusCode.INVALID_ARGUMENT, "protocol version 2, expected 1")


@devices
def test_a_call_on_a_burst_at_an_extreme_is_answered_in_words(abused: Abused) -> None:
    with WellFormed(abused.endpoint) as session:
        channel = session.open_burst()
        for extreme in extremes(burst_pb2.BurstCall.DESCRIPTOR, IN_A_DATAGRAM):
            call = extreme.applied(session.burst_call()).SerializeToString()
            if not 0 < len(call) <= MAX_MESSAGE_BYTES:
                continue
            answer = burst_pb2.BurstAnswer.FromString(channel.answer(call).message)
            if "invalid hardware buffer" not in answer.message:
                assert answer.status != types_pb2.ERROR_STATUS_GENERAL_FAILURE, (answer.message, extreme)
            if answer.status:
                require_plain(answer.message, extreme)


@devices
def test_a_call_on_a_launch_channel_at_an_extreme_is_answered_in_words(abused: Abused) -> None:
    for extreme in extremes(execution_pb2.LaunchCall.DESCRIPTOR, IN_A_DATAGRAM):
        with WellFormed(abused.endpoint) as session:
            call = extreme.applied(session.launch_call()).SerializeToString()
            told = session.open_launch_channel().answer(call).message
            refused = execution_pb2.LaunchAnswer.FromString(told).refused
            assert refused.status != types_pb2.ERROR_STATUS_GENERAL_FAILURE, (refused.message, extreme)
            if refused.status:
                require_plain(refused.message, extreme)


@devices
def test_a_request_on_a_link_at_an_extreme_is_answered_in_words(abused: Abused) -> None:
    for extreme in extremes(link_pb2.LinkRequest.DESCRIPTOR, IN_A_DATAGRAM):
        request = extreme.applied(link_pb2.LinkRequest()).SerializeToString()
        if not 0 < len(request) <= MAX_MESSAGE_BYTES:
            continue
        with RawLink(abused.endpoint.link) as link:
            link.hello()
            link.send(request)
            reply = link.receive()
            assert reply is not None
            if reply.HasField("refusal"):
                require_plain(reply.refusal.message, extreme)
