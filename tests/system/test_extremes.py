"""Requests with a field at an extreme, to devices and a framework: answered in words, at the cost of little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from hypothesis import given
from hypothesis import strategies as st

from nnhal.endpoint import Endpoint
from nnhal.link.channel import MAX_MESSAGE_BYTES
from nnhal.v1 import burst_pb2, execution_pb2, link_pb2, types_pb2
from nnhal_hosting.supervision import Child
from tests.support.extremes import Extreme, extremes
from tests.support.model_server import Devices, model_server
from tests.support.plain_words import require_plain
from tests.support.process_limits import memory_limit, peak_bytes
from tests.support.processes import own_device
from tests.support.raw_links import RawLink
from tests.support.searching import search
from tests.support.served_models import echo, write_models
from tests.support.well_formed import DEVICE_METHODS, Failure, WellFormed
from tests.support.well_formed_framework import FRAMEWORK_METHODS, WellFormedFramework

pytestmark = pytest.mark.slow

GROWTH = 256 << 20
IN_A_DATAGRAM = 300
PER_SESSION = 100
MODEL = echo("FP32")
Session = WellFormed | WellFormedFramework


@dataclass(frozen=True)
class Tier:
    """A kind of process."""

    methods: Mapping[str, MethodDescriptor]
    """What can be called."""
    session: Callable[[Endpoint], Session]
    """Opens a session that has one object of each kind."""
    many: int
    """Most elements of a list, and bytes of a text."""
    spare: int
    """Addresses that it may have beyond those that it takes: threads and their arenas take most."""

    def extremes_of(self, name: str) -> list[Extreme]:
        return _extremes_of(self.methods[name], self.many)


@cache
def _extremes_of(method: MethodDescriptor, many: int) -> list[Extreme]:
    return list(extremes(method.input_type, many))


DEVICE = Tier(DEVICE_METHODS, WellFormed, 3_000, 6 << 30)
FRAMEWORK = Tier(FRAMEWORK_METHODS, lambda endpoint: WellFormedFramework(endpoint, MODEL), 1_000, 6 << 30)
TIERS = {"cpu_ref": DEVICE, "cpu_acc": DEVICE, "framework": FRAMEWORK}


@pytest.fixture(scope="module")
def abused(
    request: pytest.FixtureRequest, device_processes: Devices, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Tier, Endpoint]]:
    """A process that may not have much memory, and serves at the end."""
    tier = TIERS[request.param]
    with ExitStack() as stack:
        if tier is FRAMEWORK:
            repository = write_models(tmp_path_factory.mktemp("repository"))
            served = stack.enter_context(model_server(device_processes, repository))
            child: Child = served.child
            pid, endpoint = served.pid, served.endpoint
        else:
            child, endpoint = stack.enter_context(own_device(request.param))
            pid = child.pid
        stack.enter_context(memory_limit(tier.spare, pid))
        before = peak_bytes(pid)
        yield tier, endpoint
        tier.session(endpoint).close()
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
def test_a_field_at_an_extreme_is_answered_in_words(abused: tuple[Tier, Endpoint], name: str) -> None:
    tier, endpoint = abused
    found, method = tier.extremes_of(name), tier.methods[name]
    for start in range(0, len(found), PER_SESSION):
        with tier.session(endpoint) as session:
            for extreme in found[start : start + PER_SESSION]:
                require_words(session.answer(method, extreme.applied(session.request_of(method))), extreme)


@every_tier(list(TIERS))
@search(25)
@given(data=st.data())
def test_several_fields_at_extremes_are_answered_in_words(abused: tuple[Tier, Endpoint], data: st.DataObject) -> None:
    tier, endpoint = abused
    name = data.draw(st.sampled_from([each for each in tier.methods if tier.extremes_of(each)]))
    chosen = data.draw(st.lists(st.sampled_from(tier.extremes_of(name)), min_size=2, max_size=4))
    with tier.session(endpoint) as session:
        request = session.request_of(tier.methods[name])
        for extreme in chosen:
            extreme.apply(request)
        require_words(session.answer(tier.methods[name], request), [str(extreme) for extreme in chosen])


@devices
def test_a_call_on_a_burst_at_an_extreme_is_answered_in_words(abused: tuple[Tier, Endpoint]) -> None:
    with WellFormed(abused[1]) as session:
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
def test_a_call_on_a_launch_channel_at_an_extreme_is_answered_in_words(abused: tuple[Tier, Endpoint]) -> None:
    for extreme in extremes(execution_pb2.LaunchCall.DESCRIPTOR, IN_A_DATAGRAM):
        with WellFormed(abused[1]) as session:
            call = extreme.applied(session.launch_call()).SerializeToString()
            told = session.open_launch_channel().answer(call).message
            refused = execution_pb2.LaunchAnswer.FromString(told).refused
            assert refused.status != types_pb2.ERROR_STATUS_GENERAL_FAILURE, (refused.message, extreme)
            if refused.status:
                require_plain(refused.message, extreme)


@devices
def test_a_request_on_a_link_at_an_extreme_is_answered_in_words(abused: tuple[Tier, Endpoint]) -> None:
    for extreme in extremes(link_pb2.LinkRequest.DESCRIPTOR, IN_A_DATAGRAM):
        request = extreme.applied(link_pb2.LinkRequest()).SerializeToString()
        if not 0 < len(request) <= MAX_MESSAGE_BYTES:
            continue
        with RawLink(abused[1].link) as link:
            link.hello()
            link.send(request)
            reply = link.receive()
            assert reply is not None
            if reply.HasField("refusal"):
                require_plain(reply.refusal.message, extreme)
